"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = cell.textContent;
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const descending = cell.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const number = (text) => (text === "" ? NaN : Number(text.replaceAll(",", "").replace(/\s%$/, "")));
      const rows = [...body.rows].map((row) => [row, value(row)]);
      const numeric = rows.every(([, text]) => text === "" || !Number.isNaN(number(text)));
      rows.sort(([, a], [, b]) => (numeric ? (number(a) || 0) - (number(b) || 0) : a.localeCompare(b)));
      if (descending) rows.reverse();
      body.append(...rows.map(([row]) => row));
    });
  });
}
const more = document.getElementById("more-classes");
if (more) {
  const rows = document.querySelectorAll("#class-table tr[data-more]");
  for (const row of rows) row.hidden = true;
  more.hidden = false;
  more.querySelector("button").addEventListener("click", () => {
    for (const row of rows) row.hidden = false;
    more.hidden = true;
  });
  document.querySelector("input[data-filter=class-table]").addEventListener("input", () => { more.hidden = true; });
}
for (const input of document.querySelectorAll("input[data-filter]")) {
  const items = document.getElementById(input.dataset.filter).querySelectorAll("[data-text]");
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const item of items) item.hidden = !item.dataset.text.toLowerCase().includes(wanted);
  });
}
const split = document.getElementById("split-filter");
const label = document.getElementById("class-filter");
function filterRecords() {
  const wanted = label.value.toLowerCase();
  for (const group of document.querySelectorAll(".class-group")) {
    group.hidden = !group.dataset.label.toLowerCase().includes(wanted);
    for (const part of group.querySelectorAll(".split-group")) {
      part.hidden = split.value !== "" && part.dataset.split !== split.value;
    }
  }
  const shown = [...document.querySelectorAll("#records .card")].filter((card) => !card.closest("[hidden]"));
  document.getElementById("filter-count").textContent = `${shown.length} records shown`;
}
split.addEventListener("change", filterRecords);
label.addEventListener("input", filterRecords);
const dialog = document.getElementById("details");
for (const button of document.querySelectorAll(".open")) {
  button.addEventListener("click", () => {
    const card = button.closest(".card");
    const images = [...button.querySelectorAll(".strip, .scale, .caption, .lines, .tokens")].map((one) => one.cloneNode(true));
    const details = card.querySelector(".details").cloneNode(true);
    details.hidden = false;
    document.getElementById("details-title").textContent = card.dataset.text;
    dialog.querySelector(".content").replaceChildren(...images, details);
    dialog.showModal();
  });
}
const command = document.getElementById("command");
for (const button of document.querySelectorAll("[data-command]")) {
  button.addEventListener("click", () => {
    document.getElementById("command-title").textContent = button.ariaLabel.replace(/: show the command$/, "");
    const words = button.dataset.command.split(" ").map((text) => {
      const word = document.createElement("span"); // a line never ends within an option
      word.className = "word";
      word.textContent = text;
      return [word, " "];
    });
    command.querySelector("code").replaceChildren(...words.flat().slice(0, -1));
    document.getElementById("copied").textContent = "";
    command.showModal();
  });
}
document.getElementById("copy").addEventListener("click", () => {
  getSelection().selectAllChildren(command.querySelector("code"));
  const done = document.execCommand("copy"); // the newer API is for pages of servers only
  document.getElementById("copied").textContent = done ? "copied" : "selected";
});
