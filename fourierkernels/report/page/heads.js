// Views of numbers of heads: distances of a layer, and statistics of all layers.

function pairsOf(distances) {
  const pairs = [];
  distances.forEach((row, a) => row.forEach((value, b) => {
    if (a < b && value !== null) pairs.push({ a, b, value });
  }));
  return pairs.sort((one, two) => one.value - two.value);
}

// The layer shown of a network that may have fewer layers than the page offers.
const layerOf = (rows) => Math.min(state.layer, rows.length - 1);

const larger = (one, two) => Math.max(one, two);

function showPairs(list, pairs) {
  list.replaceChildren(...pairs.map(({ a, b, value }) => {
    const button = element("button", { type: "button" }, `${a + 1} and ${b + 1}`);
    button.onclick = () => choose({ head: a, other: b });
    return element("li", {}, button, ` ${inWords(value)}`);
  }));
}

function showDistances() {
  const layer = layerOf(network().distances);
  const distances = network().distances[layer];
  const most = data.networks.flatMap((one) => one.distances.flat(2)).reduce(larger, 0);
  const pairs = pairsOf(distances);
  byId("distances-about").textContent = `${network().title}, layer ${layer + 1}: `
    + `${data.metric.description} (${data.metric.unit}). One scale of colours for all layers: `
    + `0 dark, ${inWords(most)} bright.`;
  fillGrid(byId("distances"), {
    values: distances,
    rowHead: "head",
    scale: [0, most],
    chosen: (a, b) => choose({ head: a, other: a === b ? -1 : b }),
    read: (a, b) => {
      byId("distances-read").textContent = a === b ? `Head ${a + 1} and itself: 0`
        : `Heads ${a + 1} and ${b + 1} of layer ${layer + 1}: ${inWords(distances[a][b])}`;
    },
  });
  byId("distances-read").textContent = "";
  showPairs(byId("nearest"), pairs.slice(0, 5));
  showPairs(byId("farthest"), pairs.slice(-5).reverse());
}

function showDrawings() {
  const drawing = network().drawings[layerOf(network().drawings)];
  for (const [id, make] of [["tree", treePicture], ["plane", planePicture]]) {
    byId(id).replaceChildren(...(drawing ? [make(drawing, state.head)] : []));
  }
  byId("tree-caption").textContent = drawing
    ? "Dendrogram, average linkage: the height of a bracket is the mean distance of its two groups."
    : "One head: nothing to group.";
  byId("plane-caption").textContent = drawing
    ? `Classical scaling to a plane; stress ${inWords(drawing.stress)} (0: the plane holds all `
      + "distances)." : "";
}

function showStatistics() {
  const row = statistic();
  const known = row.values.flat().filter((value) => value !== null);
  const unit = row.unit && ` (${row.unit})`;
  const scale = [Math.min(...known), Math.max(...known)];
  byId("statistic-about").textContent = `${row.title}${row.description && `: ${row.description}`}`
    + `${unit}. Rows are layers, columns heads; ${inWords(scale[0])} dark, ${inWords(scale[1])} bright.`;
  fillGrid(byId("statistics"), {
    values: row.values,
    rowHead: "layer",
    scale,
    chosen: (layer, head) => choose({
      layer, head, ...(row.name === "matched" ? { other: MATCHED } : {}),
    }),
    read: readStatistic,
  });
}

function readStatistic(layer, head) {
  const row = statistic();
  const value = row.values[layer]?.[head] ?? null;
  byId("statistics-read").textContent = `Layer ${layer + 1}, head ${head + 1}: ${row.title} `
    + `${inWords(value)}, ${interval(row.low[layer]?.[head] ?? null, row.high[layer]?.[head] ?? null)}`
    + (row.chance && value !== null ? `, by chance ${inWords(row.chance[layer][head])}` : "")
    + (row.name === "matched" && value !== null ? `; it is ${nameOf(matchOf(layer, head))}` : "");
  byId("head-sentence").textContent = data.sentences[layer]?.[head] ?? "";
}

function showPruning() {
  byId("pruning-section").hidden = !data.pruning;
  if (!data.pruning) return;
  byId("pruning").replaceChildren(curvesPicture(data.pruning));
  byId("pruning-caption").textContent = `Solid: the least important heads (${data.pruning.method}) `
    + "first; dashed: in random order.";
}

function showScatter() {
  const [across, up] = ["nearest", "importance"].map(
    (name) => data.statistics.find((row) => row.name === name));
  byId("scatter-figure").hidden = !(across && up);
  if (!(across && up)) return;
  byId("scatter").replaceChildren(scatterPicture(across, up, state.layer, state.head));
  const found = data.association;
  byId("scatter-caption").textContent = "A dot a head; filled: the heads of the layer. "
    + (!found || found.correlation === null ? "" : "Rank correlation within layers "
      + `${inWords(found.correlation)}, p = ${inWords(found.p_value)} by permutation; positive: `
      + "heads that resemble another are the unimportant ones.");
}

function prepareHeads() {
  showPruning();
  byId("heads-section").hidden = data.networks.length === 0;
  byId("statistics-section").hidden = data.statistics.length === 0;
  if (data.networks.length) {
    view(() => [state.layer, state.network], showDistances);
    view(() => [state.layer, state.network, state.head], showDrawings);
    view(() => [state.layer, state.network, state.head, state.other], () => {
      const other = state.other < 0 || state.other === MATCHED ? state.head : state.other;
      markCell(byId("distances"), state.head, other);
    });
  }
  if (data.statistics.length) {
    view(() => [state.statistic], showStatistics);
    view(() => [state.layer, state.head], showScatter);
    view(() => [state.layer, state.head, state.statistic], () => {
      markCell(byId("statistics"), state.layer, state.head);
      readStatistic(state.layer, state.head);
    });
    byId("scatter").onclick = (event) => {
      const { layer, head } = event.target.dataset;
      if (layer !== undefined) choose({ layer: Number(layer), head: Number(head) });
    };
  }
}
