/* What scrolls sideways on a narrow screen can be reached with the keyboard. */
document.addEventListener("DOMContentLoaded", () => {
  for (const figure of document.querySelectorAll(".cell_output figure, .highlight pre")) {
    if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0;
  }
});

/* A heading of a table that is a formula is read as text, as some programs do not read MathML. */
const SPOKEN = [
  [/\\(?:text|mathrm|operatorname)\s*\{([^{}]*)\}/g, "$1"],
  [/\\widehat\s*(?:\{([^{}]*)\}|(\w))/g, "$1$2 hat"],
  [/\\int/g, "integral of "],
  [/\^\{?\*\}?/g, " star"],
  [/\^\{([^{}]*)\}|\^(\w)/g, " to the power $1$2"],
  [/_\{([^{}]*)\}|_(\w)/g, " $1$2"],
  [/\\var(?=[a-z])/g, ""],
  [/\\[,;!()]|[{}]/g, ""],
  [/\\([A-Za-z]+)/g, "$1"],
];
function speakHeadings() {
  for (const math of document.querySelectorAll("th .math")) {
    const heading = math.closest("th");
    const rest = heading.cloneNode(true);
    for (const formula of rest.querySelectorAll(".math")) formula.remove();
    if (rest.textContent.trim()) continue;
    const text = document.createElement("span");
    text.className = "visually-hidden";
    text.textContent = SPOKEN.reduce((tex, [from, to]) => tex.replace(from, to), math.textContent);
    math.setAttribute("aria-hidden", "true");
    math.after(text);
  }
}
document.addEventListener("DOMContentLoaded", speakHeadings);
window.addEventListener("load", async () => {
  await window.MathJax?.startup?.promise; // which makes its formulas reachable with the keyboard
  for (const formula of document.querySelectorAll("th [aria-hidden] [tabindex]")) {
    formula.removeAttribute("tabindex");
  }
});

/* Names that the theme gives to what has one, which voice control then does not know; headings and
   lists that are none; and a landmark around the logo. */
function describe() {
  const named = "summary[aria-label], .search-button-field[aria-label]";
  for (const one of document.querySelectorAll(named)) one.removeAttribute("aria-label");
  for (const icon of document.querySelectorAll(".theme-switch")) {
    icon.removeAttribute("title");
    icon.querySelector("title")?.remove();
    icon.setAttribute("aria-hidden", "true");
  }
  for (const list of document.querySelectorAll(".sig dl:not(:has(> dt))")) {
    const term = document.createElement("dt");
    term.className = "visually-hidden";
    term.textContent = "Parameters";
    list.prepend(term);
  }
  for (const entry of document.querySelectorAll("[role=doc-biblioentry], .citation-list")) {
    entry.removeAttribute("role");
  }
  for (const corner of document.querySelectorAll("th")) {
    if (corner.textContent.trim()) continue;
    const cell = document.createElement("td");
    cell.className = corner.className;
    corner.replaceWith(cell);
  }
  const start = document.querySelector(".sidebar-primary-items__start");
  start?.setAttribute("role", "navigation");
  start?.setAttribute("aria-label", "Book");
}
document.addEventListener("DOMContentLoaded", describe);
window.addEventListener("load", describe); // icons are put into the page after the first
