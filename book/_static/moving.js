// Moving figures: a slider chooses among settings that Python has drawn. For every part of the
// picture that changes, the page holds its attributes at each setting; nothing is computed here.
"use strict";

(() => {
  const PAUSE = 400; // milliseconds without a change before the sentence is said

  function start(figure) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const sliders = [...figure.querySelectorAll("input[type=range]")];
    const values = figure.querySelectorAll(".moving-value");
    const status = figure.querySelector("[role=status]");
    const every = sliders.map((_, k) => k);
    let waiting;

    // Where the present setting stands in a list over some of the controls, the last one fastest.
    const place = (controls) =>
      controls.reduce((at, k) => at * data.controls[k].length + Number(sliders[k].value), 0);

    function show() {
      sliders.forEach((slider, k) => {
        const shown = data.controls[k][Number(slider.value)];
        slider.setAttribute("aria-valuetext", shown);
        values[k].textContent = shown;
      });
      for (const [id, changes] of Object.entries(data.parts)) {
        const part = document.getElementById(id);
        for (const [name, [list, controls]] of Object.entries(changes)) {
          const value = list[place(controls)];
          if (name === "text") part.textContent = value;
          else part.setAttribute(name, value);
        }
      }
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        const sentence = data.sentences[place(every)];
        if (status.textContent !== sentence) status.textContent = sentence;
      }, PAUSE);
    }

    sliders.forEach((slider) => slider.addEventListener("input", show));
    figure.querySelector(".moving-controls").hidden = false;
    show(); // a browser may have kept the sliders where they were before a reload
  }

  document.querySelectorAll(".moving").forEach(start);
})();
