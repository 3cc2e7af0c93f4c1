"use strict";

// What changes by itself: the server sends the new HTML of a part, escaped there, whenever it has changed. Only what
// differs is changed, so that who reads, types or selects there keeps their place.
for (const part of document.querySelectorAll("[data-live]")) watch(part);

function watch(part) {
  const line = document.getElementById("line");
  const source = new EventSource(part.dataset.live);
  let latest = null;
  const show = () => {
    const waits = latest !== null && isSelectedIn(part);
    line.textContent = waits ? "live, and still while text is selected" : "live";
    if (latest === null || waits) return;
    const template = document.createElement("template");
    template.innerHTML = latest;
    latest = null;
    changeInto(part, template.content);
  };
  const selected = () => { if (latest !== null) show(); };
  document.addEventListener("selectionchange", selected);
  source.onopen = () => { line.textContent = "live"; };
  source.onmessage = (event) => { latest = JSON.parse(event.data); show(); };
  source.addEventListener("end", () => { source.close(); sayEnd(); });
  source.onerror = () => {
    line.textContent = "not connected: what is shown may be old";
    if (source.readyState !== EventSource.CLOSED) return;
    // The browser gives up when it is refused: because the session has ended, or for a while.
    document.removeEventListener("selectionchange", selected);
    setTimeout(async () => {
      const refused = await isRefused(part.dataset.live);
      if (refused) sayEnd(); else watch(part);
    }, 1000 * Number(part.dataset.pause));
  };
}

async function isRefused(path) {
  const asking = new AbortController();
  try {
    return (await fetch(path, { signal: asking.signal })).status === 401;
  } catch {
    return false;
  } finally {
    asking.abort();
  }
}

// Nothing of the page stays behind, neither here nor under "back".
function sayEnd() {
  const next = location.pathname + location.search;
  location.replace("/sign-in?ended=1&next=" + encodeURIComponent(next));
}

function isSelectedIn(part) {
  const chosen = getSelection();
  return !chosen.isCollapsed && chosen.rangeCount > 0 && chosen.getRangeAt(0).intersectsNode(part);
}

function keyOf(node) { return (node.dataset && node.dataset.key) || null; }

function isText(node) { return node.nodeType === Node.TEXT_NODE; }

function isAlike(node, other) { return node.nodeName === other.nodeName && keyOf(node) === keyOf(other); }

// Give a node the children of another. Those with a key stay what they are while others come and go before them.
function changeInto(node, wanted) {
  const keysOf = (one) => new Set([...one.childNodes].map(keyOf).filter(Boolean));
  const held = keysOf(node), coming = keysOf(wanted);
  let at = node.firstChild;
  for (const child of [...wanted.childNodes]) {
    const key = keyOf(child);
    while (at && (keyOf(at) ? !coming.has(keyOf(at)) : held.has(key))) at = removed(at);
    // A text, which may be a line's end, stands in no element's way, and takes none's place.
    while (at && isText(at) && !isText(child)) at = removed(at);
    if (!at || (keyOf(at) && keyOf(at) !== key) || (isText(child) && !isText(at))) {
      node.insertBefore(child, at);
    } else if (isAlike(at, child)) {
      change(at, child);
      at = at.nextSibling;
    } else {
      const next = at.nextSibling;
      node.replaceChild(child, at);
      at = next;
    }
  }
  while (at) at = removed(at);
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function change(node, wanted) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
    return;
  }
  for (const { name } of [...node.attributes]) {
    // What somebody has unfolded stays so.
    if (!wanted.hasAttribute(name) && name !== "open") node.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  changeInto(node, wanted);
}

// A page that waits for something looks again, and says that it asks by itself: that keeps no session.
lookAgain();

function lookAgain() {
  const waiting = [...document.querySelectorAll("[data-again]")];
  if (waiting.length) setTimeout(look, 1000 * Math.min(...waiting.map((one) => Number(one.dataset.again))));
}

async function look() {
  const main = document.getElementById("main");
  const answer = isSelectedIn(main) ? null : await askedAgain();
  if (answer && answer.status === 401) { sayEnd(); return; }
  if (answer && answer.redirected) { location.replace(answer.url); return; }
  const page = answer && new DOMParser().parseFromString(answer.html, "text/html").getElementById("main");
  if (page) changeInto(main, page);
  lookAgain();
}

async function askedAgain() {
  try {
    const answer = await fetch(location.href, { headers: { "Doubtless-Again": "yes" } });
    return { status: answer.status, redirected: answer.redirected, url: answer.url, html: await answer.text() };
  } catch {
    return null;
  }
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
