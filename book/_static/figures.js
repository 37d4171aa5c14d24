/* What scrolls sideways on a narrow screen can be reached with the keyboard. */
document.addEventListener("DOMContentLoaded", () => {
  for (const figure of document.querySelectorAll(".cell_output figure, .highlight pre")) {
    if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0;
  }
});
