// A map as a file of SVG that stands alone: vectors, its tokens as text, and a scale of colours.

const SIDE = 14; // of a cell
const TEXT = { "font-family": "sans-serif", fill: "#000000" };

// XML has no control characters nor halves of pairs, whatever a token holds: signs stand for them.
function printable(text) {
  return [...text].map((sign) => {
    const code = sign.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    const none = (code >= 0x80 && code < 0xa0) || (code >= 0xd800 && code < 0xe000)
      || (code & 0xfffe) === 0xfffe;
    return none ? "\ufffd" : sign;
  }).join("");
}

function tokenText(label) {
  const signs = [...printable(label || "∅")];
  return signs.length > 40 ? `${signs.slice(0, 39).join("")}…` : signs.join("");
}

// One path for each of the bytes that occur: cells beside each other are one rectangle.
function cellPaths(codes, [n, m], [left, top]) {
  const paths = new Map();
  for (let i = 0; i < n; i += 1) {
    for (let j = 0, end = 0; j < m; j = end) {
      const code = codes[i * m + j];
      for (end = j + 1; end < m && codes[i * m + end] === code; end += 1);
      const width = (end - j) * SIDE;
      const path = `M${left + j * SIDE} ${top + i * SIDE}h${width}v${SIDE}h${-width}z`;
      paths.set(code, (paths.get(code) ?? "") + path);
    }
  }
  const share = shades(codes);
  return [...paths].map(([code, d]) => drawn("path", { d, fill: hexadecimal(share[code]) }));
}

const hexadecimal = (share) =>
  `#${colour(share).map((part) => part.toString(16).padStart(2, "0")).join("")}`;

function scaleOf(codes, packed, [left, top]) {
  const steps = 32;
  const most = state.colours === "root" ? packed.scale : weight(Math.max(...codes), packed);
  const name = state.colours === "root" ? "root of the weight" : "weight";
  return [
    ...Array.from({ length: steps }, (_, k) => drawn("rect", {
      x: left + 4 * k, y: top, width: 4.5, height: 10, fill: hexadecimal(k / (steps - 1)) })),
    drawn("text", { x: left + 4 * steps + 8, y: top + 9, "font-size": 11, ...TEXT },
      `0 to ${inWords(most)}, ${name}`),
  ];
}

function mapPicture(spot) {
  const [codes, packed] = [mapOf(spot), packedOf(spot)];
  const { queries, keys, of: whole } = example();
  const [, , n, m] = packed.shape;
  const context = new OffscreenCanvas(1, 1).getContext("2d");
  context.font = "11px sans-serif";
  const longest = (labels) => 12 + Math.ceil(Math.max(
    ...labels.map((label) => context.measureText(tokenText(label)).width)));
  const [left, top] = [longest(queries), longest(keys) + 24];
  const network = printable(spot.theirs ? data.against : data.title);
  const cut = n < whole[0] || m < whole[1] ? `, ${n} × ${m} of ${whole.join(" × ")} weights` : "";
  const name = `${network}, layer ${spot.layer + 1}, head ${spot.head + 1}${cut}`;
  const [width, height] = [Math.max(left + m * SIDE, left + 260, name.length * 7) + 8,
    top + n * SIDE + 30];
  const label = (text, x, y, more) => drawn("text", { x, y, "font-size": 11, ...TEXT, ...more },
    tokenText(text));
  return drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" },
    drawn("title", {}, `${name}: queries down, keys across`),
    drawn("rect", { width, height, fill: "#ffffff" }),
    drawn("text", { x: 4, y: 15, "font-size": 12, "font-weight": "bold", ...TEXT }, name),
    drawn("g", { "shape-rendering": "crispEdges" }, ...cellPaths(codes, [n, m], [left, top])),
    drawn("g", { "text-anchor": "end" }, ...queries.map((text, i) =>
      label(text, left - 5, top + (i + 0.5) * SIDE + 4))),
    drawn("g", {}, ...keys.map((text, j) => label(text, 0, 0, {
      transform: `translate(${left + (j + 0.5) * SIDE + 4} ${top - 5}) rotate(-90)` }))),
    drawn("g", {}, ...scaleOf(codes, packed, [left, top + n * SIDE + 10])));
}

function saveMap(spot) {
  const text = new XMLSerializer().serializeToString(mapPicture(spot));
  const parts = [`<?xml version="1.0" encoding="UTF-8"?>\n${text}\n`];
  const name = `layer-${spot.layer + 1}-head-${spot.head + 1}-${data.kind}-${state.text + 1}.svg`;
  const link = element("a", {
    href: URL.createObjectURL(new Blob(parts, { type: "image/svg+xml" })),
    download: spot.theirs ? `other-${name}` : name,
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// A button below each of the large maps; before they are drawn first.
function prepareSaving() {
  for (const [id, spotOf] of [["map", shownHead], ["other-map", besideHead]]) {
    const button = element("button", { type: "button" }, "Save this map as SVG");
    button.onclick = () => saveMap(spotOf());
    byId(id).after(button);
  }
}
