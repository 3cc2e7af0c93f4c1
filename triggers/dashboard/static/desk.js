"use strict";

// What changes by itself: the server sends the new HTML of a part, escaped there, whenever it has changed.
for (const part of document.querySelectorAll("[data-live]")) {
  const line = document.getElementById("line");
  const source = new EventSource(part.dataset.live);
  source.onopen = () => { line.textContent = "live"; };
  source.onerror = () => { line.textContent = "not connected: what is shown may be old"; };
  source.onmessage = (event) => {
    const held = part.contains(document.activeElement) ? rows().indexOf(document.activeElement.closest("[data-row]")) : -1;
    const left = [...part.querySelectorAll(".wide")].map((box) => box.scrollLeft);
    part.innerHTML = JSON.parse(event.data);
    [...part.querySelectorAll(".wide")].forEach((box, number) => { box.scrollLeft = left[number] || 0; });
    if (held >= 0) focusRow(held);
  };
  source.addEventListener("end", () => { source.close(); location.reload(); });
}

// A page that waits for something looks again.
for (const waiting of document.querySelectorAll("[data-again]")) {
  setTimeout(() => location.reload(), 1000 * Number(waiting.dataset.again));
}

// The command prints an address with the token behind "#", which no browser sends to anybody.
const signIn = document.getElementById("sign-in");
if (signIn && location.hash.length > 1) {
  document.getElementById("token").value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  signIn.requestSubmit();
}

const everything = document.getElementById("everything");
if (everything) {
  everything.addEventListener("change", () => {
    for (const box of document.querySelectorAll("input[name=id]")) box.checked = everything.checked;
  });
}

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
  const reason = document.querySelector(`[data-key="${key}"]`);
  if (reason) { reason.focus(); reason.scrollIntoView({ block: "center" }); return; }
  const select = document.querySelector("select[name=decision]");
  const word = { r: "run", d: "discard", s: "done" }[key];
  if (select && [...select.options].some((option) => option.value === word)) { select.value = word; select.focus(); }
}

function help() {
  const shown = document.getElementById("help");
  const button = document.getElementById("keys");
  if (!shown) return;
  shown.hidden = !shown.hidden;
  button.setAttribute("aria-expanded", String(!shown.hidden));
}

const keys = document.getElementById("keys");
if (keys) keys.addEventListener("click", help);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  const typing = target.matches("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape" && typing) { target.blur(); return; }
  if (typing) return;
  switch (event.key) {
    case "j": move(1); break;
    case "k": move(-1); break;
    case "x": {
      const row = target.closest("[data-row]");
      const box = row && row.querySelector("input[type=checkbox]");
      if (box) box.checked = !box.checked;
      break;
    }
    case "r": case "d": case "s": decide(event.key); break;
    case "/": { const search = document.querySelector(".search input"); if (search) search.focus(); break; }
    case "g": location.assign("/parked"); break;
    case "?": help(); break;
    default: return;
  }
  event.preventDefault();
});
