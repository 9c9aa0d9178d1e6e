// Keys and copying. Every page works without this.
"use strict";
(() => {
  const root = document.body.dataset.root;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (each) => each.offsetParent !== null;

  for (const button of all("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "Copied";
      } catch {
        const range = document.createRange();
        range.selectNodeContents(button.previousElementSibling);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  const help = document.getElementById("help");
  const asksHelp = document.querySelector("[data-help]");
  asksHelp.hidden = false;
  asksHelp.addEventListener("click", () => help.showModal());

  // A link to an event that is in another chunk asks for that chunk.
  const seek = () => {
    const wanted = /^#e(\d+)$/.exec(location.hash);
    if (!wanted || !document.getElementById("events") || document.getElementById(location.hash.slice(1))) return;
    const place = new URL(location.href);
    if (place.searchParams.get("e") === wanted[1]) return;
    place.searchParams.set("e", wanted[1]);
    location.replace(place);
  };
  addEventListener("hashchange", seek);
  seek();

  const go = (link) => { if (link) { link.focus(); link.scrollIntoView({ block: "nearest" }); } return Boolean(link); };

  // The next of some elements, from the one in focus on; a step of -1 goes back.
  const step = (elements, by, isAt) => {
    const list = elements.filter(shown);
    const at = list.findIndex(isAt);
    if (at >= 0) return list[at + by];
    const behind = list.findIndex((each) => document.activeElement.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING);
    if (document.activeElement === document.body || behind < 0) return by > 0 ? list[0] : list[list.length - 1];
    return by > 0 ? list[behind] : list[behind - 1];
  };
  const row = (by, selector = "[data-row]") => go(step(all(selector), by, (each) => each === document.activeElement));
  const pages = { o: "/", r: "/runs", i: "/inbox", h: "/health" };
  const turn = (rel) => { const link = all(`a[rel~=${rel}]`).pop(); if (link) link.click(); };
  const keys = {
    "/": () => go(document.querySelector("[data-filter]")),
    "?": () => help.showModal(),
    j: () => row(1),
    k: () => row(-1),
    ",": () => row(-1, ".events [data-row]") || turn("prev"),
    ".": () => row(1, ".events [data-row]") || turn("next"),
    "[": () => row(-1, "[data-step]"),
    "]": () => row(1, "[data-step]"),
    e: () => row(1, ".events tr.bad [data-row]"),
    d: () => go(document.getElementById("decision")),
    t: () => go(document.getElementById("tree")),
  };
  let leader = false;
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || help.open;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && /^(INPUT|SELECT)$/.test(event.target.tagName)) event.target.blur();
    if (typing) return;
    if (leader) {
      leader = false;
      if (event.key in pages) { event.preventDefault(); location.href = root + pages[event.key]; }
      return;
    }
    if (event.key === "g") { leader = true; return; }
    const act = Object.hasOwn(keys, event.key) && keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });
})();
