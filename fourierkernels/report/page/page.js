// Controls, keys, and the line that says what is shown.

function numbered(count, word) {
  return Array.from({ length: count }, (_, k) => [k, `${word} ${k + 1}`.trim()]);
}

function fillSelect(id, options) {
  byId(id).replaceChildren(...options.map(([value, label]) => element("option", { value }, label)));
}

function bindSelect(id, name) {
  byId(id).onchange = (event) => {
    const value = event.target.value;
    choose({ [name]: name === "colours" ? value : Number(value) });
  };
  view(() => [state[name]], () => { byId(id).value = String(state[name]); });
}

function headline(label) {
  const signs = [...label];
  return signs.length > 60 ? `${signs.slice(0, 59).join("")}…` : label;
}

function prepareControls() {
  fillSelect("text", data.examples.map((one, k) => [k, `${k + 1}: ${headline(one.label)}`]));
  fillSelect("layer", numbered(SIZES.layers, ""));
  fillSelect("head", numbered(SIZES.heads, ""));
  const nearest = data.matches ? [[MATCHED, `nearest of ${headline(data.against)}`]] : [];
  fillSelect("other", [[-1, "no other head"], ...numbered(SIZES.heads, "head"), ...nearest]);
  fillSelect("network", data.networks.map((one, k) => [k, one.name]));
  fillSelect("statistic", data.statistics.map((one, k) => [k, one.title]));
  for (const name of ["text", "layer", "head", "other", "network", "statistic", "colours"]) {
    bindSelect(name, name);
  }
  for (const id of ["text-label", "query-label"]) byId(id).hidden = !data.examples.length;
  byId("query").oninput = (event) => choose({ query: Number(event.target.value) - 1 });
  view(() => [state.query, state.text], showQuery);
  byId("controls").onsubmit = (event) => event.preventDefault();
}

function showQuery() {
  if (!hasMaps()) return;
  byId("query").max = example().shape[2];
  byId("query").value = state.query + 1;
  const said = named(example().queries, state.query);
  byId("query").setAttribute("aria-valuetext", said);
  byId("query-said").textContent = `${said} of ${example().shape[2]}`;
}

function statusText() {
  const where = `Layer ${state.layer + 1} of ${SIZES.layers}, head ${state.head + 1} of ${SIZES.heads}`;
  if (!data.examples.length) return `${where}. This page holds no maps.`;
  const text = `${where}, ${data.kind} ${state.text + 1} of ${data.examples.length}`;
  if (!hasMaps() || !rowOf(shownHead())) return `${text}: this page holds no such map.`;
  const beside = rowOf(besideHead()) ? ` ${nameOf(besideHead())} is shown beside it.` : "";
  return `${text}: query ${named(example().queries, state.query)} gives `
    + `${mostWeight(shownHead(), state.query)}.`
    + beside.replace(/^ ./, (sign) => sign.toUpperCase());
}

function onKey(event) {
  const typing = event.target.closest("select, textarea, input:not([type=range], [type=checkbox])");
  const free = byId("shortcuts").checked && !typing;
  if (!free || event.ctrlKey || event.altKey || event.metaKey) return;
  const step = event.shiftKey ? -1 : 1;
  const names = { l: "layer", h: "head", t: "text", q: "query", b: "other" };
  const key = event.key.toLowerCase();
  if (names[key]) choose({ [names[key]]: state[names[key]] + step });
  else if (key === "m" && data.examples.length) byId("map").focus();
  else return;
  event.preventDefault();
}

function offerNumbers() {
  const whole = new Blob([byId("data").textContent], { type: "application/json" });
  byId("download").href = URL.createObjectURL(whole);
  byId("digits").textContent = data.digits;
  byId("download-line").hidden = false;
}

function start() {
  byId("interactive").hidden = false; // before anything is drawn: maps are as wide as their place
  recall();
  prepareControls();
  prepareHeads();
  prepareMaps();
  if (data.examples.length) {
    prepareOverview();
    prepareLines();
    prepareSaving();
  }
  byId("unmatched").hidden = !data.against || Boolean(data.matches);
  view(() => [state.text, state.layer, state.head, state.other, state.query], () => {
    byId("status").textContent = statusText();
  });
  redraw();
  views.push(hintAtMore); // of what has been drawn
  hintAtMore();
  document.addEventListener("toggle", hintAtMore, true); // of a part that was folded
  offerNumbers();
  document.addEventListener("keydown", onKey);
  addEventListener("beforeprint", () => {
    for (const notes of document.querySelectorAll("details.notes")) notes.open = true;
  });
  addEventListener("hashchange", () => {
    recall();
    redraw();
  });
  let waiting = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => redraw(true));
  });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(query).addEventListener("change", () => redraw(true));
  }
}

start();
