// Thumbnails of all heads of all layers.

// Pixels of a thumbnail: as large as the place allows, so that a new size of the window draws anew.
function thumbnailSize() {
  const room = byId("overview").parentNode.clientWidth - 40;
  return Math.max(24, Math.min(56, Math.floor(room / example().shape[1]) - 8));
}

function showOverview() {
  const [layers, heads] = example().shape;
  const table = byId("overview");
  const size = thumbnailSize();
  const cells = (layer) => Array.from({ length: heads }, (_, head) => element(
    "td", { tabindex: layer + head ? -1 : 0, "aria-label": `layer ${layer + 1}, head ${head + 1}` },
    thumbnail(mapOf(ownHead(layer, head)), size)));
  const titles = Array.from({ length: heads },
    (_, head) => element("th", { scope: "col" }, `${head + 1}`));
  table.replaceChildren(
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "layer"), ...titles)),
    element("tbody", {}, ...Array.from({ length: layers }, (_, layer) => element(
      "tr", {}, element("th", { scope: "row" }, `${layer + 1}`), ...cells(layer)))));
  listen(table, openMap, () => {});
  markCell(table, state.layer, state.head);
}

function openMap(layer, head) {
  choose({ layer, head });
  byId("map").focus(); // comes into view
}

function prepareOverview() {
  view(() => [state.text, state.colours, thumbnailSize()], () => { if (hasMaps()) showOverview(); });
  view(() => [state.layer, state.head], () => markCell(byId("overview"), state.layer, state.head));
}
