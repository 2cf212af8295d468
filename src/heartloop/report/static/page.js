/* What every page has: copying, and the mark of the section on the screen. */
"use strict";

window.heartloop = window.heartloop || {};

(function (heartloop) {
  /** What the address names: `#NAME?key=value&...` as a name and its values. */
  heartloop.place = function () {
    const [name, values] = window.location.hash.slice(1).split(/\?(.*)/s);
    try {
      return { name: decodeURIComponent(name), values: new URLSearchParams(values || "") };
    } catch {
      return { name: "", values: new URLSearchParams() };
    }
  };

  /** Writes a name and its values into the address without a step of the history; empty values are left out. */
  heartloop.go = function (name, values) {
    const given = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
    const words = String(given);
    history.replaceState(null, "", "#" + name + (words && "?" + words));
  };

  const told = document.getElementById("copied");

  /** Where the clipboard is not to be had, the text is marked, so that the usual keys copy it. */
  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    let done = false;
    try {
      await navigator.clipboard.writeText(source.textContent);
      done = true;
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      const selection = window.getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
    }
    const words = button.textContent;
    button.textContent = done ? "Copied" : "Marked, copy it with your keys";
    if (told) told.textContent = button.textContent;
    window.setTimeout(() => (button.textContent = words), 2500);
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }

  /** Marks the link of the section on the screen: of the one a quarter down it, or else of the first that is shown. */
  const nav = document.querySelector(".sections");
  if (nav) document.getElementById("content").before(nav); // there it stays at the top of the window
  const links = nav ? [...nav.querySelectorAll("a")].filter((link) => document.getElementById(link.hash.slice(1))) : [];
  const sections = links.map((link) => document.getElementById(link.hash.slice(1)).closest("section"));
  let here = null;
  heartloop.mark = function () {
    const at = sections.indexOf(here && here.offsetHeight ? here : sections.find((section) => section.offsetHeight));
    links.forEach((link, place) => (place === at ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
    if (links[at]) nav.scrollTo({ left: links[at].offsetLeft - 40 });
  };
  const spy = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) here = isIntersecting ? target : here === target ? null : here;
    heartloop.mark();
  }, { rootMargin: "-25% 0px -74% 0px" });
  for (const section of sections) spy.observe(section);

  /* a run that goes on: its report is written again, and the page reloads unless a dialogue is being read */
  const every = 1000 * Number(document.body.dataset.reload);
  if (every) setInterval(() => document.querySelector("dialog[open]") || window.location.reload(), every);
})(window.heartloop);
