"use strict";
(() => {
  const places = JSON.parse(document.body.dataset.places);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const numbers = (text) => (text ? text.split(" ").map(Number) : []);
  const narrow = matchMedia("(max-width: 52rem)");
  const status = document.getElementById("status");
  const hint = status.textContent;
  const marks = all("[data-at]");
  const index = new Map();
  for (const mark of marks) {
    for (const place of numbers(mark.dataset.at)) {
      if (!index.has(place)) index.set(place, []);
      index.get(place).push(mark);
    }
  }

  // -- lighting -----------------------------------------------------------------------------------------

  let kept = null; // the mark that was clicked

  const clear = () => all(".lit, .part, .at").forEach((e) => e.classList.remove("lit", "part", "at"));

  const light = (mark) => {
    clear();
    if (mark) {
      const own = [...numbers(mark.dataset.at), ...numbers(mark.dataset.values)];
      const parts = mark.closest("#source") ? own.flatMap((place) => places[place].inside) : [];
      for (const place of parts) for (const e of index.get(place) || []) e.classList.add("part");
      for (const place of own) {
        for (const e of index.get(place) || []) {
          e.classList.remove("part");
          e.classList.add("lit");
        }
      }
      mark.classList.add("at");
    }
    count();
    tell(mark);
  };

  const lines = (element) => new Set(all(".lit", element).map((e) => e.closest(".line"))).size;

  const count = () => {
    for (const tab of all("[role=tab]")) {
      const found = lines(document.getElementById(tab.getAttribute("aria-controls")));
      tab.querySelector("b").textContent = found || "";
    }
    for (const button of all("[data-shows]")) {
      const column = document.getElementById(button.dataset.shows);
      button.querySelector("b").textContent = column.querySelector(".lit") ? lines(column) : "";
    }
  };

  const tell = (mark) => {
    if (!mark) {
      status.textContent = hint;
      return;
    }
    status.textContent = "";
    const own = numbers(mark.dataset.at);
    const named = own.filter((place) => places[place].line);
    (named.length ? named : own).slice(0, 4).forEach((place, k) => {
      const code = document.createElement("code");
      code.textContent = places[place].text;
      const where = places[place].line ? ` in line ${places[place].line}` : ", a parameter";
      const what = "derivative" in mark.dataset && places[place].line ? "the derivative of " : "";
      status.append(k ? ", " : "", what, code, where);
    });
  };

  const reveal = (mark) => {
    for (const panel of all(".panel:not([hidden])")) {
      const found = panel.contains(mark) ? mark : panel.querySelector(".lit");
      if (!found) continue;
      const box = panel.getBoundingClientRect();
      const spot = found.getBoundingClientRect();
      if (spot.top < box.top || spot.bottom > box.bottom) {
        panel.scrollTop += spot.top - box.top - box.height / 3;
      }
      if (spot.left < box.left || spot.right > box.right) {
        panel.scrollLeft += Math.min(spot.left - box.left - 48, Math.max(0, spot.right - box.right + 24));
      }
    }
  };

  const keep = (mark) => {
    kept = mark;
    light(mark);
    if (mark) reveal(mark);
  };

  const under = (event) => (event.target instanceof Element ? event.target.closest("[data-at]") : null);
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "mouse") light(under(event) || kept);
  });
  document.addEventListener("click", (event) => {
    const mark = under(event);
    if (mark) keep(mark === kept ? null : mark);
    else if (event.target.closest(".panel")) keep(null);
  });

  // -- keys ---------------------------------------------------------------------------------------------

  const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
  const walk = (event) => {
    const panel = event.target.closest(".panel");
    if (!panel || !(event.key in steps)) return;
    const spots = all("[data-at]", panel);
    if (!spots.length) return;
    const now = spots.indexOf(kept);
    const next = now < 0 ? (steps[event.key] > 0 ? 0 : spots.length - 1) : now + steps[event.key];
    if (next >= 0 && next < spots.length) keep(spots[next]);
    event.preventDefault();
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") keep(null);
    else if (event.target.getAttribute("role") === "tab") turn(event);
    else walk(event);
  });

  // -- tabs and columns ---------------------------------------------------------------------------------

  const choose = (tab) => {
    for (const other of all("[role=tab]", tab.parentElement)) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", chosen);
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (kept) reveal(kept);
  };
  const turn = (event) => {
    if (!(event.key in steps)) return;
    const tabs = all("[role=tab]", event.target.parentElement);
    const next = tabs[(tabs.indexOf(event.target) + steps[event.key] + tabs.length) % tabs.length];
    next.focus();
    choose(next);
    event.preventDefault();
  };
  for (const tab of all("[role=tab]")) tab.addEventListener("click", () => choose(tab));

  const buttons = all("[data-shows]");
  const column = (button) => document.getElementById(button.dataset.shows);
  let current = buttons[0];
  const arrange = () => {
    for (const button of buttons) {
      column(button).classList.toggle("current", button === current);
      const shown = narrow.matches ? button === current : !column(button).classList.contains("off");
      button.setAttribute("aria-pressed", shown);
    }
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      if (narrow.matches) current = button;
      else column(button).classList.toggle("off");
      arrange();
      if (kept) reveal(kept);
    });
  }
  narrow.addEventListener("change", arrange);
  arrange();
  for (const line of all("[data-begin]")) {
    const panel = line.closest(".panel");
    panel.scrollTop = line.getBoundingClientRect().top - panel.getBoundingClientRect().top - 8;
  }
})();
