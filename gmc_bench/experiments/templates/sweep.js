"use strict";
{
  const box = document.getElementById("redraw");
  // The address remembers the choice: every redrawing is a new page.
  box.checked = location.hash !== "#still";
  box.addEventListener("change", () => location.replace(box.checked ? "#" : "#still"));
  box.closest("label").hidden = false;
  setInterval(() => { if (box.checked) location.reload(); }, 1000 * box.dataset.seconds);
}
