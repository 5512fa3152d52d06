// What Streamlit may write into the browser's history, given what the reader did last.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { runInNewContext } from "node:vm";

const SCRIPT = readFileSync(new URL("../../ui/history.js", import.meta.url), "utf-8");

class Link {
  constructor(href, target = "", dataset = { testid: "stPageLink-NavLink" }) {
    Object.assign(this, { href, target, origin: "http://here", dataset });
  }

  getAttribute() {
    return this.href;
  }

  setAttribute(name, value) {
    this[name] = value;
  }
}

/** A browser at `path`: `deeds` are its reader's and Streamlit's, and it gives the entries of its history. */
function browser(path) {
  const [entries, listeners] = [[path], {}];
  let at = 0;
  const location = {
    get href() {
      return `http://here${entries[at]}`;
    },
    origin: "http://here",
  };
  const history = {
    pushState: (state, title, url) => entries.splice((at += 1), Infinity, url),
    replaceState: (state, title, url) => (entries[at] = url),
  };
  const addEventListener = (kind, told) => (listeners[kind] = told);
  runInNewContext(SCRIPT, { history, location, addEventListener, HTMLAnchorElement: Link, URL });
  const act = (type, more = {}) => listeners[type]({ type, button: 0, composedPath: () => [], ...more });
  return {
    entries,
    push: (url) => history.pushState({}, "", url),
    replace: (url) => history.replaceState({}, "", url),
    click: (href, more = {}, target = "") => {
      act("pointerup");
      act("click", { composedPath: () => (href === undefined ? [] : [new Link(href, target)]), ...more });
    },
    over: (kind, link) => act(kind, { composedPath: () => [{}, link] }),
    act,
    press: (more = {}) => act("keydown", more),
    go: (move) => {
      at += move;
      listeners.popstate({ type: "popstate" });
    },
    here: () => entries[at],
  };
}

/** Three pages, the last of them open. */
function visited() {
  const one = browser("/masks?row=2");
  one.click("positions");
  one.push("/positions");
  one.click("align");
  one.push("/align");
  return one;
}

test("a page that was under way when Back was pressed neither comes back nor cuts off the way forward", () => {
  const one = visited();
  one.go(-1);
  one.go(-1);
  one.push("/positions?row=2");
  one.replace("/masks");
  one.push("/masks?row=3");
  assert.equal(one.here(), "/masks?row=2");
  assert.deepEqual(one.entries, ["/masks?row=2", "/positions", "/align"]);
});

test("Back by the keyboard or the mouse is none of the page's affairs", () => {
  const one = visited();
  one.go(-1);
  one.press({ altKey: true });
  one.push("/align");
  assert.deepEqual(one.entries, ["/masks?row=2", "/positions", "/align"]);
  one.press({ button: 3 });
  one.push("/align");
  assert.equal(one.here(), "/positions");
});

test("what is done after Back makes an entry as ever", () => {
  const one = visited();
  one.go(-1);
  one.click();
  one.push("/positions?screen=table");
  one.press();
  one.push("/positions?screen=rotation");
  assert.deepEqual(one.entries, ["/masks?row=2", "/positions", "/positions?screen=table", "/positions?screen=rotation"]);
});

test("a link is one entry, though the page that is left says something late and the new one says it twice", () => {
  const one = browser("/masks");
  one.click("positions?steps=20");
  one.push("/masks?row=2");
  one.push("/positions?row=2");
  one.push("/positions?steps=20");
  assert.deepEqual(one.entries, ["/masks", "/positions?steps=20"]);
  one.click("?layer=1"); // Streamlit's address of the first page
  one.push("/?layer=1");
  assert.deepEqual(one.entries, ["/masks", "/positions?steps=20", "/?layer=1"]);
});

test("a link that opens elsewhere, or is opened apart, asks for nothing here", () => {
  for (const click of [(one) => one.click("positions", { ctrlKey: true }), (one) => one.click("positions", {}, "_blank")]) {
    const one = browser("/masks");
    click(one);
    one.push("/masks?row=2");
    assert.deepEqual(one.entries, ["/masks", "/masks?row=2"]);
  }
});

test("an address that is said in newer words before the reader does anything is no entry of its own", () => {
  for (const kind of ["keydown", "pointerup", "change", "drop"]) {
    const one = browser("/translate?view=Step+by+step");
    one.push("/translate?view=steps");
    one.push("/translate?view=steps&step=2");
    assert.deepEqual(one.entries, ["/translate?view=steps&step=2"]);
    one.act(kind);
    one.push("/translate?view=beams");
    assert.deepEqual(one.entries, ["/translate?view=steps&step=2", "/translate?view=beams"]);
  }
});

test("the menu's link to the first page is complete before it can be opened apart; no other link is touched", () => {
  for (const kind of ["pointerover", "pointerdown", "focusin"]) {
    const one = browser("/align?first=a");
    const made = ["?layer=1", "", "positions?steps=20", "./?layer=1"].map((href) => new Link(href));
    const other = new Link("?layer=1", "", {});
    for (const link of [...made, other]) one.over(kind, link);
    assert.deepEqual(made.map(({ href }) => href), ["./?layer=1", "./", "positions?steps=20", "./?layer=1"]);
    assert.equal(other.href, "?layer=1");
    one.over(kind, {});
    one.click("./?layer=1");
    one.push("/?layer=1");
    assert.deepEqual(one.entries, ["/align?first=a", "/?layer=1"]);
  }
});
