// Tables of coloured cells that arrow keys move in: one stop of the Tab key each.

const DENSE = 24; // columns above which cells are too narrow for their numbers

// Let arrow keys move the focus among the nodes that `selector` finds, `columns()` in a row.
function arrows(box, selector, columns) {
  const nodes = () => [...box.querySelectorAll(selector)];
  const stop = (node) => {
    for (const one of nodes()) one.tabIndex = one === node ? 0 : -1;
  };
  box.addEventListener("focusin", (event) => {
    const node = event.target.closest(selector);
    if (node) stop(node);
  });
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const all = nodes();
    const at = all.indexOf(event.target.closest(selector));
    const row = columns();
    const to = {
      ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + row, ArrowUp: at - row,
      Home: at - (at % row), End: Math.min(at - (at % row) + row, all.length) - 1,
    }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    if (all[to]) all[to].focus();
  });
}

// Say of what is wider than its place that it scrolls: not every browser shows a bar.
function hintAtMore() {
  for (const box of document.querySelectorAll(".scroll")) {
    let hint = box.previousElementSibling;
    if (!hint?.classList.contains("more")) {
      hint = element("p", { class: "more", "aria-hidden": "true" }, "scrolls sideways →");
      box.before(hint);
    }
    hint.hidden = box.scrollWidth <= box.clientWidth + 1;
  }
}

// Fill `table` with values[row][column]. `chosen(row, column)` runs on Enter and on a click,
// `read(row, column)` when a cell is pointed at or has the focus.
function fillGrid(table, { values, scale, chosen, read, rowHead }) {
  const [low, high] = scale;
  const columns = values[0].length;
  const numbers = (count) => Array.from({ length: count }, (_, place) => String(place + 1));
  table.classList.toggle("dense", columns > DENSE);
  const head = element("tr", {}, element("th", { scope: "col" }, rowHead),
    ...numbers(columns).map((text) => element("th", { scope: "col" }, text)));
  const body = values.map((row, r) => element("tr", {},
    element("th", { scope: "row" }, String(r + 1)),
    ...row.map((value, c) => {
      const cell = element("td", { tabindex: r + c ? -1 : 0 }, inWords(value));
      if (value !== null) paint(cell, high > low ? (value - low) / (high - low) : 0.5);
      return cell;
    })));
  table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
  listen(table, chosen, read);
}

// Both are called with the row and the column of a cell.
function listen(table, chosen, read) {
  const place = (target) => {
    const cell = target.closest("td");
    return cell && [cell.parentNode.rowIndex - 1, cell.cellIndex - 1];
  };
  const act = (event, what) => {
    const at = place(event.target);
    if (at) what(...at);
    return Boolean(at);
  };
  table.onclick = (event) => act(event, chosen);
  table.onpointerover = (event) => act(event, read);
  table.onread = (event) => act(event, read); // called below: there is no property for focusin
  table.onkeydown = (event) => {
    if ((event.key === "Enter" || event.key === " ") && act(event, chosen)) event.preventDefault();
  };
}

// Mark the chosen cell; the Tab key comes back to it.
function markCell(table, row, column) {
  const inside = table.contains(document.activeElement);
  for (const cell of table.querySelectorAll("td")) {
    const is = cell.parentNode.rowIndex - 1 === row && cell.cellIndex - 1 === column;
    cell.classList.toggle("chosen", is);
    cell.setAttribute("aria-selected", String(is));
    if (!inside) cell.tabIndex = is ? 0 : -1;
  }
}

for (const table of document.querySelectorAll("table.cells")) {
  arrows(table, "td", () => table.rows[0].cells.length - 1);
  table.addEventListener("focusin", (event) => table.onread?.(event));
}
