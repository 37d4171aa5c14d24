// What one query attends to, in words and as shaded tokens; and the large maps around it.

const LISTED = 8; // keys in the table

// The codes of one row of a head; null where there is no such map.
function rowOf(spot, query = state.query) {
  const codes = spot && mapOf(spot);
  const m = example().shape[3];
  return codes && codes.subarray(query * m, (query + 1) * m);
}

// Places of the keys of most weight, the largest first.
function topKeys(row, count) {
  return [...row.keys()].sort((a, b) => row[b] - row[a] || a - b).slice(0, count);
}

// Isolated, so that a label which runs from right to left leaves the numbers around it in place.
const named = (labels, place) => `${place + 1} “\u2068${labels[place]}\u2069”`;

// What a query attends to most. A key that is cut off is never passed over for one that is kept.
function mostWeight(spot, query) {
  const row = rowOf(spot, query);
  const [best] = topKeys(row, 1);
  const kept = weightInWords(weight(row[best], packedOf(spot)));
  const key = `key ${named(example().keys, best)}, ${kept}`;
  const away = beyond(spot, query);
  return away ? `most weight, ${weightInWords(away)}, to a key that is cut off from this page; of `
    + `those kept, to ${key}` : `most weight to ${key}`;
}

// Whether a key is also a query, so that a click on it may choose it.
function selfAttention() {
  const { queries, keys } = example();
  return queries.length === keys.length && queries.every((label, k) => label === keys[k]);
}

function showTokens(box, row, packed) {
  const same = selfAttention();
  const shade = shades(row);
  box.classList.toggle("selects", same);
  box.replaceChildren(...example().keys.flatMap((label, place) => {
    const token = element("bdi", { title: `${place + 1}: ${weightInWords(weight(row[place], packed))}`,
      "data-place": place }, label || "∅");
    token.classList.toggle("chosen", same && place === state.query);
    paint(token, shade[row[place]]);
    return [token, " "];
  }));
}

function showTop(spots) {
  const { keys, queries, shape, of: whole } = example();
  const rows = spots.map((spot) => [rowOf(spot), packedOf(spot)]);
  const head = ["place", "key", ...spots.map(nameOf)];
  const kept = shape[3] < whole[1] ? `, of the ${shape[3]} keys that are kept` : "";
  byId("top").replaceChildren(
    element("caption", {}, `Keys of most weight for query ${named(queries, state.query)}${kept}`),
    element("thead", {}, element("tr", {},
      ...head.map((title) => element("th", { scope: "col" }, title)))),
    element("tbody", {}, ...topKeys(rows[0][0], LISTED).map((place) => element("tr", {},
      element("td", {}, String(place + 1)), element("td", {}, element("bdi", {}, keys[place])),
      ...rows.map(([row, packed]) => element("td", {}, weightInWords(weight(row[place], packed))))))));
}

function showRow() {
  const spot = shownHead();
  const beside = rowOf(besideHead()) ? besideHead() : null;
  byId("other-row-block").hidden = !beside;
  if (!rowOf(spot)) {
    for (const id of ["row", "row-title", "top"]) byId(id).replaceChildren();
    return;
  }
  const query = named(example().queries, state.query);
  const title = (one) => `Query ${query}, ${nameOf(one)}, on the keys`;
  byId("row-title").textContent = title(spot);
  showTokens(byId("row"), rowOf(spot), packedOf(spot));
  if (beside) {
    byId("other-row-title").textContent = title(beside);
    showTokens(byId("other-row"), rowOf(beside), packedOf(beside));
  }
  showTop(beside ? [spot, beside] : [spot]);
}

function captionOf(spot) {
  const where = spot.theirs ? nameOf(spot) : `layer ${spot.layer + 1}, head ${spot.head + 1}`;
  const found = data.matches?.distances[state.layer]?.[state.head];
  const why = spot.theirs ? `, the nearest to head ${state.head + 1}: ${inWords(found)} away over `
    + `${data.matches.n_texts} ${data.kind}${data.matches.n_texts === 1 ? "" : "s"} `
    + `(${data.matches.metric})` : "";
  return `${where[0].toUpperCase()}${where.slice(1)}${why}: queries down, keys across`;
}

function showLarge() {
  for (const [prefix, spot] of [["", shownHead()], ["other-", besideHead()]]) {
    const codes = spot && mapOf(spot);
    const canvas = byId(`${prefix}map`);
    canvas.parentNode.hidden = !codes && prefix !== "";
    canvas.hidden = canvas.nextElementSibling.hidden = !codes; // and the button that saves it
    byId(prefix ? "other-caption" : "map-caption").textContent = codes ? captionOf(spot)
      : `This ${data.kind} has no head ${state.head + 1} in layer ${state.layer + 1}`;
    if (!codes) continue;
    drawMap(canvas, codes);
    describe(canvas, spot);
  }
}

function describe(canvas, spot) {
  const { queries, shape } = example();
  const about = {
    "aria-label": `Map of ${spot.theirs ? "" : `layer ${spot.layer + 1}, `}${nameOf(spot)}: query`,
    "aria-valuemin": 1, "aria-valuemax": shape[2], "aria-valuenow": state.query + 1,
    "aria-valuetext": `query ${named(queries, state.query)}: ${mostWeight(spot, state.query)}`,
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

function prepareMap(canvas, spotOf) {
  canvas.onclick = (event) => {
    const at = cellAt(canvas, event);
    if (at) choose({ query: at[0] });
  };
  canvas.onpointermove = (event) => {
    const at = cellAt(canvas, event);
    if (!at || at[1] < 0) return;
    const { queries, keys, shape } = example();
    const spot = spotOf();
    const code = mapOf(spot)[at[0] * shape[3] + at[1]];
    byId("map-read").textContent = `${nameOf(spot).replace(/^h/, "H").replace(/^l/, "L")}: query `
      + `${named(queries, at[0])} on key ${named(keys, at[1])}: `
      + weightInWords(weight(code, packedOf(spot)));
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

// A canvas of `size` pixels along the longer side of a map.
function thumbnail(codes, size) {
  const [, , n, m] = example().shape;
  const canvas = element("canvas", { "aria-hidden": "true" });
  const scale = size / Math.max(n, m);
  const [width, height] = [m, n].map((count) => Math.max(1, Math.round(count * scale)));
  const pixel = Math.ceil(window.devicePixelRatio || 1);
  [canvas.width, canvas.height] = [width * pixel, height * pixel];
  canvas.style.width = `${width}px`;
  paintCodes(canvas.getContext("2d"), codes, [n, m], [0, 0, width * pixel, height * pixel]);
  return canvas;
}

function showSmall() {
  const buttons = Array.from({ length: example().shape[1] }, (_, head) => {
    const codes = mapOf(ownHead(state.layer, head));
    return codes && element("button", { type: "button", tabindex: -1, "data-head": head },
      thumbnail(codes, 64), `head ${head + 1}`);
  });
  byId("small").replaceChildren(...buttons.filter(Boolean));
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
  const { label, source, shape, of: whole } = example();
  byId("source-block").hidden = source === null;
  for (const [id, text] of [["label", label], ["source", source ?? ""]]) {
    const box = byId(id);
    box.textContent = text;
    box.tabIndex = box.scrollHeight > box.clientHeight ? 0 : -1; // long ones scroll by keyboard
  }
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
  view(() => [hasMaps()], () => { // before anything is drawn there; nothing of another text stays
    for (const id of ["drawn", "query-label"]) byId(id).hidden = !hasMaps();
  });
  view(() => [state.text], showText, { sized: true });
  view(() => [state.text, state.colours], showBar);
  view(map, shown(showSmall));
  view(() => [map(), state.head], shown(markSmall));
  view(() => [map(), state.head, state.other, state.query], shown(showLarge), { sized: true });
  view(() => [map(), state.head, state.other, state.query], shown(showRow));
  prepareMap(byId("map"), shownHead);
  prepareMap(byId("other-map"), besideHead);
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
