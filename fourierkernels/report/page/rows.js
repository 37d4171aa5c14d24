// What one query attends to, in words and as shaded tokens; and the large maps around it.

const LISTED = 8; // keys in the table

function rowOf(layer, head) {
  const codes = mapOf(layer, head);
  const m = example().shape[3];
  return codes && codes.subarray(state.query * m, (state.query + 1) * m);
}

// Places of the keys of most weight, the largest first.
function topKeys(row, count) {
  return [...row.keys()].sort((a, b) => row[b] - row[a] || a - b).slice(0, count);
}

// Isolated, so that a label which runs from right to left leaves the numbers around it in place.
const named = (labels, place) => `${place + 1} “\u2068${labels[place]}\u2069”`;

// Whether a key is also a query, so that a click on it may choose it.
function selfAttention() {
  const { queries, keys } = example();
  return queries.length === keys.length && queries.every((label, k) => label === keys[k]);
}

function showTokens(box, row) {
  const same = selfAttention();
  const shade = shades(row);
  box.classList.toggle("selects", same);
  box.replaceChildren(...example().keys.flatMap((label, place) => {
    const token = element("bdi", { title: `${place + 1}: ${weightInWords(weight(row[place]))}`,
      "data-place": place }, label || "∅");
    token.classList.toggle("chosen", same && place === state.query);
    paint(token, shade[row[place]]);
    return [token, " "];
  }));
}

function showTop(rows) {
  const { keys, queries } = example();
  const heads = [state.head, state.other].slice(0, rows.length);
  const head = ["place", "key", ...heads.map((one) => `head ${one + 1}`)];
  byId("top").replaceChildren(
    element("caption", {}, `Keys of most weight for query ${named(queries, state.query)}`),
    element("thead", {}, element("tr", {},
      ...head.map((title) => element("th", { scope: "col" }, title)))),
    element("tbody", {}, ...topKeys(rows[0], LISTED).map((place) => element("tr", {},
      element("td", {}, String(place + 1)), element("td", {}, element("bdi", {}, keys[place])),
      ...rows.map((row) => element("td", {}, weightInWords(weight(row[place]))))))));
}

function showRow() {
  const [row, other] = [state.head, state.other].map(
    (head) => (head < 0 ? null : rowOf(state.layer, head)));
  byId("other-row-block").hidden = !other;
  if (!row) {
    for (const id of ["row", "row-title", "top"]) byId(id).replaceChildren();
    return;
  }
  const title = (head) => `Query ${named(example().queries, state.query)}, head ${head + 1}, on the keys`;
  byId("row-title").textContent = title(state.head);
  showTokens(byId("row"), row);
  if (other) {
    byId("other-row-title").textContent = title(state.other);
    showTokens(byId("other-row"), other);
  }
  showTop(other ? [row, other] : [row]);
}

function showLarge() {
  const pairs = [["map", "map-caption", state.head], ["other-map", "other-caption", state.other]];
  for (const [id, captionId, head] of pairs) {
    const there = head >= 0 && mapOf(state.layer, head);
    const canvas = byId(id);
    canvas.parentNode.hidden = !there && id !== "map";
    canvas.hidden = !there;
    byId(captionId).textContent = there
      ? `Layer ${state.layer + 1}, head ${head + 1}: queries down, keys across`
      : `This ${data.kind} has no head ${head + 1} in layer ${state.layer + 1}`;
    if (!there) continue;
    drawMap(canvas, state.layer, head);
    describe(canvas, head);
  }
}

function describe(canvas, head) {
  const { queries, keys, shape } = example();
  const row = rowOf(state.layer, head);
  const [best] = topKeys(row, 1);
  const about = {
    "aria-label": `Map of layer ${state.layer + 1}, head ${head + 1}: query`,
    "aria-valuemin": 1, "aria-valuemax": shape[2], "aria-valuenow": state.query + 1,
    "aria-valuetext": `query ${named(queries, state.query)}: most weight on key `
      + `${named(keys, best)}, ${weightInWords(weight(row[best]))}`,
  };
  for (const [name, value] of Object.entries(about)) canvas.setAttribute(name, value);
}

// Row and column of a map under the pointer, or null.
function cellAt(canvas, event) {
  const { margin, cell } = drawnAs.get(canvas);
  const [i, j] = [event.offsetY, event.offsetX].map((at) => Math.floor((at - margin) / cell));
  const [, , n, m] = example().shape;
  return i >= 0 && i < n && j >= -Math.ceil(margin / cell) && j < m ? [i, j] : null;
}

function prepareMap(canvas, head) {
  canvas.onclick = (event) => {
    const at = cellAt(canvas, event);
    if (at) choose({ query: at[0] });
  };
  canvas.onpointermove = (event) => {
    const at = cellAt(canvas, event);
    if (!at || at[1] < 0) return;
    const { queries, keys, shape } = example();
    const code = mapOf(state.layer, head())[at[0] * shape[3] + at[1]];
    byId("map-read").textContent = `Head ${head() + 1}: query ${named(queries, at[0])} on key `
      + `${named(keys, at[1])}: ${weightInWords(weight(code))}`;
  };
  canvas.onkeydown = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const last = example().shape[2] - 1;
    const to = {
      ArrowUp: state.query - 1, ArrowDown: state.query + 1, ArrowLeft: state.query - 1,
      ArrowRight: state.query + 1, PageUp: state.query - 10, PageDown: state.query + 10,
      Home: 0, End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose({ query: to });
  };
}

function showSmall() {
  const [, heads, n, m] = example().shape;
  const size = 64;
  const buttons = Array.from({ length: heads }, (_, head) => {
    const codes = mapOf(state.layer, head);
    const canvas = element("canvas", { "aria-hidden": "true" });
    const scale = size / Math.max(n, m);
    const [width, height] = [m, n].map((count) => Math.max(1, Math.round(count * scale)));
    const pixel = Math.ceil(window.devicePixelRatio || 1);
    [canvas.width, canvas.height] = [width * pixel, height * pixel];
    canvas.style.width = `${width}px`;
    const place = [0, 0, width * pixel, height * pixel];
    if (codes) paintCodes(canvas.getContext("2d"), codes, [n, m], place);
    return element("button", { type: "button", tabindex: -1, "data-head": head }, canvas,
      `head ${head + 1}`);
  });
  byId("small").replaceChildren(...(mapOf(state.layer, 0) ? buttons : []));
}

function markSmall() {
  for (const button of byId("small").children) {
    const is = Number(button.dataset.head) === state.head;
    button.setAttribute("aria-pressed", String(is));
    if (!byId("small").contains(document.activeElement)) button.tabIndex = is ? 0 : -1;
  }
}

// Buttons in the first line of small maps: as many as an arrow up or down has to move.
function smallColumns() {
  const all = [...byId("small").children];
  return Math.max(1, all.filter((one) => one.offsetTop === all[0].offsetTop).length);
}

function showText() {
  const { label, shape, of: whole } = example();
  const box = byId("label");
  box.textContent = label;
  box.tabIndex = box.scrollHeight > box.clientHeight ? 0 : -1; // long ones scroll by keyboard
  const cut = shape[2] < whole[0] || shape[3] < whole[1];
  byId("kept").hidden = !cut;
  byId("kept").textContent = !cut ? "" : shape[2] === 0
    ? `The maps of this ${data.kind} are not in this page, which holds a limited number of weights.`
    : `This page holds a limited number of weights: the first ${shape[2]} of ${whole[0]} queries `
      + `and ${shape[3]} of ${whole[1]} keys are kept, so rows need not sum to 1.`;
  const top = example().scale;
  byId("step").textContent = `Weights are kept in one byte each, the root in ${data.levels} steps: `
    + `a weight w is off by at most ${top === 1 ? "" : `${inWords(top)} `}(√w / ${data.levels} + 1 / 510²)`
    + `${top === 1 ? "" : `, w as a share of ${inWords(top)}`}: ${inWords(top / data.levels)} near `
    + "the largest, a thousandth of that near 0.";
}

function showBar() {
  const context = byId("bar").getContext("2d");
  for (let at = 0; at < 256; at += 1) {
    context.fillStyle = `rgb(${colour(at / 255).join(" ")})`;
    context.fillRect(at, 0, 1, 1);
  }
  byId("bar-end").textContent = state.colours === "root" ? inWords(example().scale)
    : "the largest of each map";
}

function prepareMaps() {
  byId("maps-section").hidden = !data.examples.length;
  if (!data.examples.length) return;
  const shown = (draw) => () => { if (hasMaps()) draw(); };
  const map = () => [state.text, state.layer, state.colours];
  view(() => [state.text], showText, { sized: true });
  view(() => [state.text, state.colours], showBar);
  view(map, shown(showSmall));
  view(() => [map(), state.head], shown(markSmall));
  view(() => [map(), state.head, state.other, state.query], shown(showLarge), { sized: true });
  view(() => [map(), state.head, state.other, state.query], shown(showRow));
  prepareMap(byId("map"), () => state.head);
  prepareMap(byId("other-map"), () => state.other);
  arrows(byId("small"), "button", smallColumns);
  byId("small").onclick = (event) => {
    const button = event.target.closest("button");
    if (button) choose({ head: Number(button.dataset.head) });
  };
  for (const id of ["row", "other-row"]) {
    byId(id).onclick = (event) => {
      const place = event.target.dataset.place;
      if (place !== undefined && selfAttention()) choose({ query: Number(place) });
    };
  }
}
