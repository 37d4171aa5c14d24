// Data, the one state of the page, and what every drawing needs.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

addEventListener("error", (event) => {
  byId("failure").hidden = false;
  byId("failure").textContent = `This page has failed: ${event.message}`;
});

// Children are nodes or strings; strings are untrusted and become text, never markup.
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Three digits of a number, whatever its size; all of a whole number.
function inWords(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.001 || size >= 1e5) return value.toExponential(2);
  return size >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

// A weight is kept in one of few levels: no more digits than they tell.
function weightInWords(value) {
  return value > 0 && value < 0.0005 ? value.toExponential(1) : value.toFixed(3);
}

// Labels of ticks at equal distances, with as many digits as tell them apart.
function ticksInWords(values) {
  const step = Math.abs((values[1] ?? 0) - values[0]) || 1;
  const place = Math.floor(Math.log10(step) + 1e-9);
  const most = Math.max(...values.map(Math.abs));
  if (most >= 0.001 && most < 1e5) return values.map((one) => one.toFixed(Math.max(0, -place)));
  const digits = (one) => Math.max(0, Math.floor(Math.log10(Math.abs(one)) + 1e-9) - place);
  return values.map((one) => (one === 0 ? "0" : one.toExponential(digits(one))));
}

function interval(low, high) {
  if (low === null || high === null) return "no interval";
  return `${Math.round(100 * data.level)}% interval ${inWords(low)} to ${inWords(high)}`;
}

const PALETTE = Array.from({ length: data.colours.length / 6 }, (_, place) =>
  [0, 2, 4].map((at) => parseInt(data.colours.slice(6 * place + at, 6 * place + at + 2), 16)));

// `share` runs from 0, dark, to 1, bright.
function colour(share) {
  return PALETTE[Math.round(Math.min(Math.max(share, 0), 1) * (PALETTE.length - 1))];
}

// Black or white, whichever stands out more: at least 4.58 to 1 on any colour.
function inkOn(rgb) {
  const [r, g, b] = rgb.map((part) => {
    const s = part / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

function paint(node, share) {
  const rgb = colour(share);
  node.style.backgroundColor = `rgb(${rgb.join(" ")})`;
  node.style.color = inkOn(rgb);
}

function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// All places count from 0; `other` is the head shown beside, -1 for none, or MATCHED.
const state = {
  text: 0, ...data.start, other: -1, query: 0, network: 0, statistic: 0, colours: "root",
};
const views = [];

// `draw` runs when what `depends` returns has changed, so that focus inside a drawing stays.
// One that is `sized` also runs when the window or the colours of its theme have.
function view(depends, draw, { sized = false } = {}) {
  let last;
  views.push((resized) => {
    const now = JSON.stringify(depends());
    if (!(sized && resized) && now === last) return;
    last = now;
    draw();
  });
}

function redraw(resized = false) {
  for (const show of views) show(resized);
}

function choose(change) {
  Object.assign(state, change);
  clamp();
  redraw();
  remember();
}

const example = () => data.examples[state.text];
const network = () => data.networks[state.network];
const statistic = () => data.statistics[state.statistic];

function sizes() {
  const grids = [
    ...data.networks.map((one) => [
      one.distances.length, Math.max(...one.distances.map((layer) => layer.length)),
    ]),
    ...data.statistics.map((one) => [one.values.length, one.values[0].length]),
    ...data.examples.map((one) => one.shape.slice(0, 2)),
  ];
  const most = (place) => Math.max(1, ...grids.map((grid) => grid[place]));
  return { layers: most(0), heads: most(1) };
}

const SIZES = sizes();
const MATCHED = SIZES.heads; // after the last head: the nearest one of the other network
if (data.matches) state.other = MATCHED;
state.query = data.examples.length ? Math.floor(data.examples[0].shape[2] / 2) : 0;

function clamp() {
  const within = (value, count, least = 0) => Math.max(least, Math.min(value, count - 1));
  state.text = within(state.text, data.examples.length);
  state.layer = within(state.layer, SIZES.layers);
  state.head = within(state.head, SIZES.heads);
  state.other = within(state.other, SIZES.heads + (data.matches ? 1 : 0), -1);
  state.query = within(state.query, example() ? example().shape[2] : 1);
  state.network = within(state.network, data.networks.length);
  state.statistic = within(state.statistic, data.statistics.length);
}

// The choice stands in the address, counted from 1, so that a view can be sent to somebody.
function remember() {
  const parts = new URLSearchParams();
  for (const name of ["text", "layer", "head", "query"]) parts.set(name, state[name] + 1);
  if (state.other >= 0) parts.set("beside", state.other + 1);
  if (state.network) parts.set("weights", network().name);
  if (state.statistic) parts.set("statistic", statistic().name);
  if (state.colours !== "root") parts.set("colours", state.colours);
  try {
    history.replaceState(null, "", `#${parts}`);
  } catch {
    // Inside another page there is no address of its own to change.
  }
}

function recall() {
  if (location.hash && !location.hash.includes("=")) return; // a place in the page
  const parts = new URLSearchParams(location.hash.slice(1));
  const place = (name, otherwise) => {
    const value = Number.parseInt(parts.get(name), 10);
    return Number.isSafeInteger(value) ? value - 1 : otherwise;
  };
  for (const name of ["text", "layer", "head", "query"]) state[name] = place(name, state[name]);
  state.other = place("beside", location.hash ? -1 : state.other);
  const named = (rows, name) => Math.max(0, rows.findIndex((row) => row.name === parts.get(name)));
  state.network = named(data.networks, "weights");
  state.statistic = named(data.statistics, "statistic");
  state.colours = parts.get("colours") === "largest" ? "largest" : "root";
  clamp();
}
