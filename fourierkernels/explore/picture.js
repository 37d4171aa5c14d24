// The picture of an exploration. It draws nothing by itself: the SVG comes from Python, which is told
// where the pointer is held down, and which arrow key was pressed. One message is under way at a
// time, so that a slow kernel is not left behind by a fast hand.
const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
const PATIENCE = 1000; // milliseconds after which an answer is no longer waited for

function render({ model, el }) {
  const picture = document.createElement("div");
  const sentence = document.createElement("div");
  picture.className = "explore-picture";
  sentence.className = "explore-sentence";
  sentence.setAttribute("role", "status");
  sentence.setAttribute("aria-live", "polite");
  el.append(picture, sentence);

  const draw = () => {
    picture.innerHTML = model.get("svg");
  };
  const say = () => {
    sentence.textContent = model.get("sentence");
  };
  model.on("change:svg", draw);
  model.on("change:sentence", say);
  draw();
  say();

  let number = 0;
  let sent = 0;
  let waiting = null;
  const busy = () => model.get("answered") < number && Date.now() - sent < PATIENCE;
  const send = (content) => {
    number = Math.max(number, model.get("answered")) + 1;
    sent = Date.now();
    model.send({ ...content, number });
  };
  const offer = (content) => {
    if (busy()) waiting = content;
    else send(content);
  };
  model.on("change:answered", () => {
    if (waiting && !busy()) {
      const next = waiting;
      waiting = null;
      send(next);
    }
  });

  if (!model.get("pointed")) return;
  picture.tabIndex = 0;
  picture.setAttribute("role", "group");
  picture.setAttribute("aria-label", "Picture; arrow keys move what the pointer moves");
  const place = (event) => {
    const svg = picture.querySelector("svg");
    const at = new DOMPoint(event.clientX, event.clientY);
    const { x, y } = at.matrixTransform(svg.getScreenCTM().inverse());
    return { kind: "pointer", x, y };
  };
  picture.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    picture.focus();
    picture.setPointerCapture(event.pointerId);
    offer({ ...place(event), pressed: true });
  });
  picture.addEventListener("pointermove", (event) => {
    if (event.buttons & 1) offer({ ...place(event), pressed: false });
  });
  picture.addEventListener("keydown", (event) => {
    if (!KEYS.includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    offer({ kind: "key", key: event.key });
  });
}

export default { render };
