// Keys and copying. Every page works without this.
"use strict";
(() => {
  const root = document.body.dataset.root;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const line = document.getElementById("line");
  const main = document.getElementById("main");
  const shown = (each) => each.offsetParent !== null;

  // What only works with a script is shown by it, also in what was fetched later.
  const dress = () => all("[data-copy]").forEach((button) => { button.hidden = false; });
  dress();
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-copy-link]");
    if (!button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const word = button.dataset.word ||= button.textContent;
    event.preventDefault();
    try {
      await navigator.clipboard.writeText(button.dataset.copy || button.href);
      button.textContent = "Copied";
    } catch {
      if (button.href) { location.href = button.href; return; }
      getSelection().selectAllChildren(button.previousElementSibling);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = word; }, 2000);
  });

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
  const pages = { o: "/", r: "/runs", i: "/inbox", f: "/failures", s: "/stats", h: "/health" };
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
    a: () => {
      const steer = document.querySelector(".steer");
      if (!document.querySelector(".card [data-act]") && steer) steer.open = true;
      go(document.querySelector(".card [data-act]") || document.querySelector("[data-act]"));
    },
    t: () => go(document.getElementById("tree")),
    f: () => go(document.querySelector("[data-find]")),
  };
  // Two runs are compared: x remembers the one in focus, or that of the page, and c takes another one beside it.
  const named = () => {
    const link = document.activeElement.closest("tr")?.querySelector("th a[data-row][href*='/runs/']");
    const place = link && !link.closest(".events") ? link.pathname : location.pathname;
    const found = place.startsWith(`${root}/runs/`) && place.slice(`${root}/runs/`.length);
    return found ? found.split("/").map(decodeURIComponent).join("/") : "";
  };
  keys.x = () => { if (named()) { sessionStorage.setItem("one", named()); line.textContent = `Compare with ${named()}: c`; } };
  keys.c = () => {
    const one = sessionStorage.getItem("one") || "", other = named();
    location.href = `${root}/compare?${new URLSearchParams(one && other ? { a: one, b: other } : { a: one || other })}`;
  };

  // The slider shows another state when it has rested for a moment.
  const saidIn = (form) => new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  const show = async (form) => {
    const said = saidIn(form);
    const answer = await fetch(`${form.dataset.state}?${said}`);
    if (answer.status === 404) gone(await answer.text());
    if (!answer.ok || `${saidIn(form)}` !== `${said}`) return;
    await htmx.swap({ text: await answer.text(), target: document.getElementById("state-box"), sourceElement: main, select: "#state-box > *", swap: "innerMorph ignoreTitle:true" });
    // The address says what is shown, so that it stays when the page asks for itself anew, and can be copied.
    const told = (address) => {
      const place = new URL(address);
      for (const key of ["at", "from"]) place.searchParams.delete(key);
      for (const [key, value] of said) place.searchParams.set(key, value);
      return place.href;
    };
    history.replaceState(null, "", told(location.href));
    all("[data-copy-link]").forEach((link) => { link.href = told(link.href); });
  };
  let resting = 0;
  document.addEventListener("input", ({ target }) => {
    if (!target.matches("[data-slider]")) return;
    clearTimeout(resting);
    resting = setTimeout(() => show(target.form), 100);
  });

  let leader = false;
  document.addEventListener("keydown", (event) => {
    const typing = (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "range") || help.open;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) event.target.blur();
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

  // Live: hints say what has grown, and the page asks for itself anew. A list says how many rows are new and stays.
  const { live, streams } = document.body.dataset;
  let source = null, heard = 0, isCut = false, isOver = false, tag = document.body.dataset.tag, asking = false, again = false;

  const list = (fresh) => {
    const rows = (place) => new Map([...place.querySelectorAll("[data-row]")].map((each) => [each.getAttribute("href"), each.closest("tr")]));
    const shownRows = rows(main), freshRows = rows(fresh);
    for (const [place, old] of shownRows) {
      const now = freshRows.get(place);
      if (now && !old.contains(document.activeElement)) old.replaceChildren(...now.childNodes);
    }
    const count = [...freshRows.keys()].filter((place) => !shownRows.has(place)).length;
    const link = document.getElementById("new-rows");
    link.hidden = !count;
    link.textContent = `${count} new \u2191`;
  };

  // What was erased, or may not be seen any more, is not left on the screen.
  const gone = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    document.title = page.title;
    main.replaceChildren(...page.getElementById("main").childNodes);
    isOver = true;
    source?.close();
    source = null;
    line.textContent = "";
  };

  const refresh = async () => {
    if (isOver) return;
    if (asking) { again = true; return; }
    asking = true;
    try {
      const asked = location.href, answer = await fetch(asked, { headers: tag ? { "If-None-Match": tag } : {} });
      const text = await answer.text();
      // The slider has been moved meanwhile, and what it shows is newer.
      if (location.href !== asked) again = true;
      else if (answer.status === 200) {
        tag = answer.headers.get("etag");
        if (live === "list") list(new DOMParser().parseFromString(text, "text/html"));
        else await htmx.swap({ text, target: main, sourceElement: main, select: "#main > *", swap: "innerMorph ignoreTitle:true" });
        dress();
      } else if (answer.status === 404) gone(text);
    } catch { /* the line says that the server is away */ }
    setTimeout(() => { asking = false; if (again) { again = false; refresh(); } }, 500);
  };

  const alive = () => { heard = Date.now(); isCut = false; if (line.textContent !== "Live.") line.textContent = "Live."; };
  const listen = () => {
    const opened = source = new EventSource(`${root}/live`);
    source.addEventListener("error", () => {
      isCut = true;
      if (opened.readyState !== EventSource.CLOSED) return;
      // Any answer but a stream ends it for good: that of a proxy whose server is away, or that there is nothing to see.
      refresh();
      setTimeout(() => { if (source === opened) listen(); }, 2_000 + 2_000 * Math.random());
    });
    source.addEventListener("beat", () => { alive(); refresh(); });
    source.addEventListener("message", ({ data }) => {
      alive();
      const grown = JSON.parse(data).streams;
      if (!streams || streams.split(" ").some((each) => each in grown)) refresh();
    });
  };
  if (live) {
    listen();
    setInterval(() => {
      // A line that was cut is told soon, one that is only silent when five beats are missing.
      if (source && heard && Date.now() - heard > (isCut ? 3_000 : 20_000) && line.textContent === "Live.") {
        line.textContent = `Not live since ${new Date(heard).toISOString().slice(11, 19)}.`;
      }
    }, 1000);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) { source?.close(); source = null; }
      else if (!source && !isOver) listen();
    });
  }
})();
