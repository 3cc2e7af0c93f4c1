"use strict";

// The keys of all pages. They are heard from before a page shows anything: a key that came to nothing would leave the
// reason that is typed behind it to be taken for keys, too, and one of those for another decision.

// The keys that came before the page was whole.
let early = [];

function rows() { return [...document.querySelectorAll("[data-row]")]; }

function focusRow(number) {
  const found = rows()[number];
  const link = found && found.querySelector("a");
  if (link) { link.focus(); link.scrollIntoView({ block: "nearest" }); }
}

function move(by) {
  const all = rows();
  const at = all.indexOf(document.activeElement.closest("[data-row]"));
  focusRow(at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by)));
}

function decide(key) {
  const reason = document.querySelector(`input[data-key="${key}"]`);
  if (reason) { reason.focus(); reason.scrollIntoView({ block: "center" }); return; }
  const select = document.querySelector("select[name=decision]");
  const word = { r: "run", d: "discard", s: "done" }[key];
  if (select && [...select.options].some((option) => option.value === word)) { select.value = word; select.focus(); }
}

function help() {
  const shown = document.getElementById("help");
  if (!shown) return;
  shown.hidden = !shown.hidden;
  document.getElementById("keys").setAttribute("aria-expanded", String(!shown.hidden));
}

document.addEventListener("click", (event) => { if (event.target.id === "keys") help(); });

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  const typing = target.matches("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape" && typing) { target.blur(); return; }
  if (typing) return;
  if (document.readyState === "loading") {
    if (event.key.length > 1) return;
    early.push(event.key);
    event.preventDefault();
  } else if (press(event.key, target)) {
    event.preventDefault();
  }
});

// The page is whole before scripts that wait for it have come: between the two, keys count as they are pressed.
document.addEventListener("readystatechange", () => {
  const [first, ...typed] = early;
  early = [];
  if (!first || !press(first, document.activeElement)) return;
  const field = document.activeElement;
  if (field.matches("input:not([type=checkbox])")) field.value += typed.join("");
});

// Do what a key stands for; whether it stands for anything.
function press(key, target) {
  switch (key) {
    case "j": move(1); break;
    case "k": move(-1); break;
    case "x": {
      const row = target.closest("[data-row]");
      const box = row && row.querySelector("input[type=checkbox]");
      if (box) box.checked = !box.checked;
      break;
    }
    case "r": case "d": case "s": decide(key); break;
    case "/": { const search = document.querySelector(".search input"); if (search) search.focus(); break; }
    case "g": location.assign("/parked"); break;
    case "?": help(); break;
    default: return false;
  }
  return true;
}
