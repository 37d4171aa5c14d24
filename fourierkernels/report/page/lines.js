// Queries to the left, keys to the right, and a line for each weight between them.

const STEP = 24; // height of a token, in pixels
const LEAST_LINE = 0.02; // share of the largest weight below which only one token's lines show
const DEPTHS = 8; // steps of the opacity of all lines together: one path each

let pointed = null; // the token under the pointer or with the focus: [is it a key, place]

function token(label, place, isKey) {
  const button = element("button", { type: "button", tabindex: place ? -1 : 0, dir: "auto",
    title: `${place + 1}: ${label}` }, label || "∅");
  const point = (to) => () => {
    pointed = to;
    showPointed();
  };
  button.onpointerenter = button.onfocus = point([isKey, place]);
  button.onpointerleave = button.onblur = point(null);
  if (!isKey || selfAttention()) button.onclick = () => choose({ query: place });
  return button;
}

function showEnds() {
  const { queries, keys } = example();
  pointed = null;
  byId("line-queries").replaceChildren(...queries.map((label, place) => token(label, place, false)));
  byId("line-keys").replaceChildren(...keys.map((label, place) => token(label, place, true)));
}

const middle = (place) => (place + 0.5) * STEP;
const curve = (i, j) => `M0 ${middle(i)}C50 ${middle(i)} 50 ${middle(j)} 100 ${middle(j)}`;

// Weights of a head as shares of the largest it may show, with their queries and keys.
function weightsOf(spot, wanted) {
  const codes = mapOf(spot);
  const [, , n, m] = example().shape;
  const share = shades(codes);
  const found = [];
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j < m; j += 1) {
      if (codes[i * m + j] && wanted(i, j)) found.push([i, j, share[codes[i * m + j]]]);
    }
  }
  return found;
}

function showLines() {
  const [, , n, m] = example().shape;
  const height = Math.max(n, m) * STEP;
  const svg = byId("line-drawing");
  svg.setAttribute("viewBox", `0 0 100 ${height}`);
  svg.style.height = `${height}px`;
  const paths = Array.from({ length: DEPTHS }, () => []);
  for (const [i, j, share] of mapOf(shownHead()) ? weightsOf(shownHead(), () => true) : []) {
    if (share < LEAST_LINE) continue;
    paths[Math.min(Math.floor(share * DEPTHS), DEPTHS - 1)].push(curve(i, j));
  }
  svg.replaceChildren(
    drawn("g", { class: "all" }, ...paths.map((path, depth) => drawn("path", {
      d: path.join(""), "stroke-opacity": (depth + 0.5) / DEPTHS }))),
    drawn("g", { class: "one" }));
  byId("lines-about").textContent = `Layer ${state.layer + 1}, head ${state.head + 1}; queries to the `
    + "left, keys to the right. The more opaque a line, the larger its weight, on the scale of the "
    + `colours; below ${LEAST_LINE} of it there is none. A pointer or the focus on a token leaves its `
    + "lines alone, all of them.";
  showPointed();
}

// The lines of the token pointed at, or all lines and over them those of the chosen query.
function showPointed() {
  const spot = shownHead();
  if (!hasMaps() || !mapOf(spot)) return;
  const [isKey, place] = pointed ?? [false, state.query];
  const [all, one] = byId("line-drawing").children;
  const found = weightsOf(spot, (i, j) => (isKey ? j : i) === place);
  all.setAttribute("visibility", pointed ? "hidden" : "visible");
  one.replaceChildren(...found.map(([i, j, share]) => drawn("path", {
    d: curve(i, j), "stroke-opacity": Math.max(share, 0.04) })));
  const shares = new Map(found.map(([i, j, share]) => [isKey ? i : j, share]));
  for (const [id, opposite] of [["line-queries", isKey], ["line-keys", !isKey]]) {
    [...byId(id).children].forEach((button, k) => {
      button.classList.toggle("chosen", !opposite && k === place);
      button.style.backgroundColor = button.style.color = "";
      if (opposite && pointed) paint(button, shares.get(k) ?? 0);
    });
  }
  byId("lines-read").textContent = pointed ? linesInWords(spot, isKey, place) : "";
}

function linesInWords(spot, isKey, place) {
  const { queries, keys, shape, of: whole } = example();
  if (!isKey) return `Query ${named(queries, place)} gives ${mostWeight(spot, place)}`;
  const column = Array.from({ length: shape[2] }, (_, i) => mapOf(spot)[i * shape[3] + place]);
  const [best] = topKeys(column, 1);
  const kept = shape[2] < whole[0] ? ", of those kept," : "";
  return `Key ${named(keys, place)} gets most weight from query ${named(queries, best)}${kept} `
    + weightInWords(weight(column[best]));
}

function prepareLines() {
  const shown = (draw) => () => { if (hasMaps()) draw(); };
  view(() => [state.text], shown(showEnds));
  view(() => [state.text, state.layer, state.head, state.colours], shown(showLines));
  view(() => [state.query], shown(showPointed));
  for (const id of ["line-queries", "line-keys"]) arrows(byId(id), "button", () => 1);
}
