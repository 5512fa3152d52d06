// What Streamlit may write into the browser's history, given what the reader did last.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { runInNewContext } from "node:vm";

const sourceOf = (name) => readFileSync(new URL(`../../ui/${name}`, import.meta.url), "utf-8");
const SCRIPT = ["shared/address.js", "patches/history.js"].map(sourceOf).join("");

class Link {
  constructor(href, target = "", dataset = { testid: "stPageLink-NavLink" }) {
    Object.assign(this, { href, target, origin: "http://here", dataset });
  }

  closest() {
    return null;
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
  for (const part of ["pathname", "search", "hash"]) {
    Object.defineProperty(location, part, { get: () => new URL(location.href)[part] });
  }
  const history = {
    pushState: (state, title, url) => entries.splice((at += 1), Infinity, url),
    replaceState: (state, title, url) => (entries[at] = url),
  };
  const addEventListener = (kind, told) => (listeners[kind] ??= []).push(told);
  const hear = (event) => listeners[event.type].forEach((told) => told(event));
  const told = [];
  const dispatchEvent = ({ type }) => (type === "popstate" ? hear({ type }) : told.push(type));
  const context = { history, location, addEventListener, dispatchEvent, URL, URLSearchParams };
  Object.assign(context, { HTMLAnchorElement: Link, HTMLElement: Link });
  Object.assign(context, { Event, PopStateEvent: Event });
  runInNewContext(SCRIPT, context);
  const act = (type, more = {}) => hear({ type, button: 0, composedPath: () => [], ...more });
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
      hear({ type: "popstate" });
    },
    /** Back or Forward of a real browser; whether Streamlit hears of it. */
    goTrusted: (move) => {
      let heard = true;
      at += move;
      hear({ type: "popstate", isTrusted: true, stopImmediatePropagation: () => (heard = false) });
      return heard;
    },
    address: context.heedmapAddress,
    told,
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
  const expected = ["/masks?row=2", "/positions", "/positions?screen=table", "/positions?screen=rotation"];
  assert.deepEqual(one.entries, expected);
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
  const elsewhere = (one) => one.click("positions", { ctrlKey: true });
  for (const click of [elsewhere, (one) => one.click("positions", {}, "_blank")]) {
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
    assert.deepEqual(made.map(({ href }) => href), ["/?layer=1", "/", "/positions?steps=20", "/?layer=1"]);
    assert.equal(other.href, "?layer=1");
    one.over(kind, {});
    one.click("./?layer=1");
    one.push("/?layer=1");
    assert.deepEqual(one.entries, ["/align?first=a", "/?layer=1"]);
  }
});

/** What a component is sent, for one of the arrivals that a session counts. */
const arrival = (number, values = {}, session = "first") => ({ session, arrival: number, values });

/** Translate with a head that its scripts chose: the server has drawn one arrival there. */
function choosing(path = "/translate?text=dogs") {
  const one = browser(path);
  one.address.arrive(arrival(1));
  one.click();
  one.address.write({ layer: "3", head: "2" });
  return one;
}

const CHOSEN = "#layer=3&head=2";

test("a change by scripts of the page is an entry, and Back over it asks nothing of the server", () => {
  const one = choosing();
  assert.deepEqual(one.entries, ["/translate?text=dogs", `/translate?text=dogs${CHOSEN}`]);
  one.address.write({ layer: "3", head: "2" });
  assert.equal(one.entries.length, 2);
  assert.equal(one.goTrusted(-1), false);
  assert.deepEqual({ ...one.address.values() }, {});
  assert.equal(one.goTrusted(1), false);
  assert.deepEqual({ ...one.address.values() }, { layer: "3", head: "2" });
  one.address.write({});
  assert.equal(one.here(), "/translate?text=dogs");
  one.push("/translate?text=cats");
  assert.equal(one.goTrusted(-1), true); // another sentence is the server's
});

test("what Streamlit writes keeps what stands behind #, but on another page", () => {
  const one = choosing();
  one.push("/translate?text=cats");
  assert.equal(one.here(), `/translate?text=cats${CHOSEN}`);
  one.replace("/translate?text=cats&words=False");
  assert.equal(one.here(), `/translate?text=cats&words=False${CHOSEN}`);
  one.push("/align?text=dogs");
  assert.equal(one.here(), "/align?text=dogs");
});

test("keys that a link names before # stand behind it once the server has said so, once an arrival", () => {
  const one = browser("/translate?head=1");
  one.address.arrive(arrival(1, { head: "1" }));
  one.push("/translate");
  assert.deepEqual(one.entries, ["/translate#head=1"]);
  one.click();
  one.address.write({ head: "3" });
  one.address.arrive(arrival(1, { head: "1" })); // the same one, told by another component
  assert.equal(one.here(), "/translate#head=3");
});

test("what is drawn again of an earlier arrival, or of a session before a restart, takes nothing back", () => {
  const one = browser("/translate");
  const steps = [arrival(1), arrival(2), arrival(1, {}, "second")];
  for (const [last, late] of steps.entries()) {
    one.address.arrive(late);
    for (const earlier of steps.slice(0, last)) one.address.arrive({ ...earlier, values: { head: "1" } });
    assert.deepEqual(steps.map(one.address.isDrawn), steps.map((step) => step === late));
  }
  assert.equal(one.here(), "/translate");
});

test("where no session has a name, another arrival is the last one", () => {
  const one = browser("/translate");
  for (const late of [arrival(2, {}, ""), arrival(1, {}, "")]) {
    one.address.arrive(late);
    assert.ok(one.address.isDrawn(late));
  }
});

test("other words for the same are no entry, and wait for an answer that is on its way", () => {
  const one = choosing();
  one.address.settle({ head: "2" });
  assert.deepEqual([one.here(), one.entries.length], ["/translate?text=dogs#head=2", 2]);
  one.push("/translate?text=cats");
  one.goTrusted(-1);
  one.address.settle({ head: "5" });
  assert.equal(one.here(), "/translate?text=dogs#head=2");
});

test("the menu leads to a page as its scripts left it, and to the open one as it is at first", () => {
  const one = choosing();
  const side = { closest: () => true };
  one.click("align");
  one.push("/align");
  const link = Object.assign(new Link("translate?text=dogs"), side);
  one.over("pointerover", link);
  assert.equal(link.href, `/translate?text=dogs${CHOSEN}`);
  one.act("click", { composedPath: () => [Object.assign(new Link("translate?text=dogs"), side)] });
  one.push("/translate?text=dogs");
  assert.equal(one.here(), `/translate?text=dogs${CHOSEN}`);
  one.act("click", { composedPath: () => [Object.assign(new Link("translate?text=dogs"), side)] });
  assert.equal(one.here(), "/translate?text=dogs");
  one.click("what_if?text=dogs"); // a link of the page says all itself
  one.push("/what_if?text=dogs");
  one.click("translate?text=dogs");
  one.push("/translate?text=dogs");
  assert.equal(one.here(), "/translate?text=dogs");
});

test("a press on what sets a key changes the address that is open by then, and keeps what stands behind #", () => {
  const one = browser("/what_if?text=dogs&cell=1-1#head=2");
  const row = new Link("", "", { sets: "step=3" });
  one.act("pointerup");
  one.act("click", { composedPath: () => [{}, row] });
  assert.equal(one.here(), "/what_if?text=dogs&cell=1-1&step=3#head=2");
  assert.equal(one.entries.length, 2);
});
