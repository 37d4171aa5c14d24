// Views of maps: the text, small maps of all heads, one or two large ones, and a row of them.

const LETTERS = 12; // height of the labels of a map, in pixels

const decoded = new WeakMap(); // bytes of each packed array, read when it is first shown

function bytes(packed) {
  if (!decoded.has(packed)) {
    decoded.set(packed, Uint8Array.from(atob(packed.maps), (sign) => sign.charCodeAt(0)));
  }
  return decoded.get(packed);
}

// A head that is shown: its layer and number, and whether it is one of the other network.
const ownHead = (layer, head) => ({ layer, head, theirs: false });
const shownHead = () => ownHead(state.layer, state.head);

// The head shown beside it, or null.
function besideHead() {
  if (state.other < 0) return null;
  return state.other === MATCHED ? matchOf(state.layer, state.head)
    : ownHead(state.layer, state.other);
}

// The head of the other network that is nearest to one of this.
function matchOf(layer, head) {
  const found = data.matches?.layers[layer]?.[head];
  return found === undefined ? null
    : { layer: found, head: data.matches.heads[layer][head], theirs: true };
}

function nameOf({ layer, head, theirs }) {
  return theirs ? `layer ${layer + 1}, head ${head + 1} of ${data.against}` : `head ${head + 1}`;
}

const packedOf = ({ theirs }) => (theirs ? example().other : example());

// Roots of the weights of a head, 0 to 255, row after row; null where the text has no such head.
function mapOf(spot) {
  const packed = packedOf(spot);
  if (!packed || !packed.shape[2]) return null;
  const [layers, heads, n, m] = packed.shape;
  if (spot.layer >= layers || spot.head >= heads) return null;
  const start = (spot.layer * heads + spot.head) * n * m;
  return bytes(packed).subarray(start, start + n * m);
}

const weight = (code, { scale } = example()) => scale * (code / data.levels) ** 2;
const hasMaps = () => Boolean(example()) && example().shape[2] > 0;

// The largest weight of a row if its key is cut off from this page, otherwise 0.
function beyond(spot, query) {
  const packed = packedOf(spot);
  if (!packed.beyond) return 0;
  const [, heads, n] = packed.shape;
  return weight(bytes(packed.beyond)[(spot.layer * heads + spot.head) * n + query], packed.beyond);
}

// Share of the colour scale of each of the 256 bytes.
function shades(codes) {
  const top = codes.reduce((most, code) => Math.max(most, code), 1);
  const share = (code) => state.colours === "root" ? code / data.levels : (code / top) ** 2;
  return Array.from({ length: 256 }, (_, code) => share(code));
}

// Draw n x m codes into the square at (left, top); cells narrower than a pixel give it their
// largest weight, since a mean would hide single bright keys.
function paintCodes(context, codes, [n, m], [left, top, width, height]) {
  const [rows, columns] = [Math.min(n, height), Math.min(m, width)];
  const most = new Uint8Array(rows * columns);
  for (let i = 0; i < n; i += 1) {
    const row = Math.floor((i * rows) / n) * columns;
    for (let j = 0; j < m; j += 1) {
      const at = row + Math.floor((j * columns) / m);
      most[at] = Math.max(most[at], codes[i * m + j]);
    }
  }
  const image = new ImageData(columns, rows);
  const colours = shades(codes).map(colour);
  most.forEach((code, at) => image.data.set([...colours[code], 255], 4 * at));
  const small = new OffscreenCanvas(columns, rows);
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, left, top, width, height);
}

// Width of the widest label; those of 40 signs and more fill all the room there is.
function longest(context, { queries, keys }) {
  context.font = `${LETTERS}px sans-serif`;
  const widths = [...queries, ...keys].map((label) => context.measureText(label.slice(0, 40)).width);
  return Math.max(...widths);
}

const drawnAs = new Map(); // margin and size of a cell of each canvas

function drawMap(canvas, codes) {
  const [, , n, m] = example().shape;
  const pixel = window.devicePixelRatio || 1;
  const room = Math.max(canvas.parentNode.clientWidth, 200);
  const context = canvas.getContext("2d");
  const margin = Math.min(longest(context, example()) + 10, 110, room / 4);
  const fit = Math.min((room - margin - 4) / m, 620 / n, 34) * pixel;
  const cell = (fit >= 3 ? Math.floor(fit) : fit) / pixel; // whole pixels of the screen, if it may
  const [width, height] = [m * cell, n * cell];
  canvas.style.width = `${margin + width + 2}px`;
  canvas.style.height = `${margin + height + 2}px`;
  canvas.width = Math.ceil((margin + width + 2) * pixel);
  canvas.height = Math.ceil((margin + height + 2) * pixel);
  const place = [margin, margin, width, height].map((length) => Math.round(length * pixel));
  paintCodes(context, codes, [n, m], place);
  context.scale(pixel, pixel);
  axisLabels(context, example().queries, { cell, margin, chosen: state.query, turned: false });
  axisLabels(context, example().keys, { cell, margin, chosen: -1, turned: true });
  for (const [colourName, wide] of [["#000000", 4], ["#ffffff", 2]]) {
    context.strokeStyle = colourName;
    context.lineWidth = wide;
    context.strokeRect(margin - 1, margin + state.query * cell - 1, width + 2, Math.max(cell, 1) + 2);
  }
  drawnAs.set(canvas, { margin, cell });
}

// Labels of queries to the left, or of keys above, turned; as many as there is room for.
function axisLabels(context, labels, { cell, margin, chosen, turned }) {
  const every = Math.ceil(12 / cell);
  context.textBaseline = "middle";
  context.textAlign = turned ? "left" : "right";
  context.fillStyle = themed("--ink");
  labels.forEach((label, place) => {
    const near = chosen >= 0 && Math.abs(place - chosen) < every;
    if (place !== chosen && (near || place % every !== 0)) return;
    context.font = `${place === chosen ? "bold " : ""}${LETTERS}px sans-serif`;
    const along = margin + (place + 0.5) * cell;
    context.save();
    context.translate(turned ? along : margin - 5, turned ? margin - 5 : along);
    if (turned) context.rotate(-Math.PI / 2);
    context.fillText(shortened(context, label, margin - 6), 0, 0);
    context.restore();
  });
}

function shortened(context, label, room) {
  const signs = [...label];
  if (signs.length <= 40 && context.measureText(label).width <= room) return label;
  let kept = Math.min(signs.length, 40);
  while (kept > 1 && context.measureText(`${signs.slice(0, kept).join("")}…`).width > room) kept -= 1;
  return `${signs.slice(0, kept).join("")}…`;
}
