(() => {
  "use strict";
  const EVERY = 15000, PACE = 2000;
  const body = document.body, live = document.getElementById("live"), say = document.getElementById("say");
  const task = body.dataset.task;
  let next = Number(body.dataset.seq) + 1, shown = body.dataset.at;
  let source, ticking, planned, busy = false, last = Date.now(), told;
  // What the server last sent of each section: only what differs is replaced.
  const sent = new Map();
  const sections = page => page.querySelectorAll("[data-live]");
  for (const one of sections(document)) sent.set(one.id, one.outerHTML);

  function tell(word) {
    live.textContent = word === "live" ? "live, " + shown : word + ", showing " + shown;
    if (word !== told) {
      if (told !== undefined) say.textContent = live.textContent;
      told = word;
    }
  }

  // By what an element is known again in the section that takes the place of its own.
  const mark = one => [one.tagName, one.getAttribute("href"), one.form && one.form.getAttribute("action"), one.dataset.key, one.textContent].join("|");

  function replace(old, fresh) {
    const focused = old.contains(document.activeElement) ? mark(document.activeElement) : null;
    const open = new Set();
    for (const one of old.querySelectorAll("details")) if (one.open) open.add(one.dataset.key);
    const places = [...old.querySelectorAll("pre")].map(one =>
      [one.scrollLeft, one.scrollTop, one.scrollTop + one.clientHeight >= one.scrollHeight - 4]);
    old.replaceWith(document.adoptNode(fresh));
    for (const one of fresh.querySelectorAll("details")) if (open.has(one.dataset.key)) one.open = true;
    fresh.querySelectorAll("pre").forEach((one, n) => {
      if (!places[n]) return;
      one.scrollLeft = places[n][0];
      one.scrollTop = places[n][2] && one.dataset.end !== undefined ? one.scrollHeight : places[n][1];
    });
    if (focused !== null)
      for (const one of fresh.querySelectorAll("a,button,summary,pre,[tabindex]"))
        if (mark(one) === focused) { one.focus({ preventScroll: true }); break; }
  }

  function take(page) {
    shown = page.body.dataset.at;
    const chosen = getSelection();
    for (const fresh of sections(page)) {
      const old = document.getElementById(fresh.id), html = fresh.outerHTML;
      // What somebody is about to copy stays until he has.
      const held = old && chosen && !chosen.isCollapsed && old.contains(chosen.anchorNode);
      if (!old || held || sent.get(fresh.id) === html) continue;
      sent.set(fresh.id, html);
      replace(old, fresh);
    }
    if (document.title !== page.title) { document.title = page.title; say.textContent = page.title; }
  }

  async function refresh() {
    if (busy || document.hidden) return;
    busy = true;
    last = Date.now();
    try {
      const answer = await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(10000) });
      if (!answer.ok && answer.status !== 404) throw new Error(answer.status);
      take(new DOMParser().parseFromString(await answer.text(), "text/html"));
      tell("live");
    } catch (error) {
      tell("connection lost");
    }
    busy = false;
  }

  function soon() {
    if (planned === undefined)
      planned = setTimeout(() => { planned = undefined; refresh(); }, Math.max(100, last + PACE - Date.now()));
  }

  function follow() {
    source = new EventSource("/v1/events?from=" + next + (task ? "&task=" + task : ""));
    source.onmessage = event => { next = Number(event.lastEventId) + 1; soon(); };
    source.onopen = () => { if (told === "connection lost") soon(); };
    source.addEventListener("gap", soon);
    source.onerror = () => {
      tell("connection lost");
      if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (!document.hidden) { stop(); start(); } }, 5000);
    };
  }

  function start() { if (!source) { follow(); ticking = setInterval(refresh, EVERY); } }
  function stop() { if (source) { source.close(); source = undefined; clearInterval(ticking); } }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { stop(); tell("paused"); } else { start(); refresh(); }
  });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", event => { if (event.persisted) { start(); refresh(); } });
  for (const one of document.querySelectorAll("pre[data-end]")) one.scrollTop = one.scrollHeight;
  tell("live");
  if (!document.hidden) start();
})();
