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
    get pathname() {
      return new URL(this.href).pathname;
    },
    get search() {
      return new URL(this.href).search;
    },
  };
  const history = {
    pushState: (state, title, url) => entries.splice((at += 1), Infinity, url),
    replaceState: (state, title, url) => (entries[at] = url),
  };
  const addEventListener = (kind, told) => (listeners[kind] = told);
  const told = [];
  const dispatchEvent = ({ type }) => (type === "popstate" ? listeners.popstate({ type }) : told.push(type));
  const asked = [];
  class WebSocket {
    send(data) {
      asked.push(data);
    }
  }
  const context = { history, location, addEventListener, dispatchEvent, HTMLAnchorElement: Link, URL, WebSocket };
  Object.assign(context, { Event, PopStateEvent: Event, TextDecoder, TextEncoder, Uint8Array });
  runInNewContext(SCRIPT, context);
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
    /** Back or Forward of a real browser; whether Streamlit hears of it. */
    goTrusted: (move) => {
      let heard = true;
      at += move;
      listeners.popstate({ type: "popstate", isTrusted: true, stopImmediatePropagation: () => (heard = false) });
      return heard;
    },
    address: context.heedmapAddress,
    told,
    ask: (message) => {
      new WebSocket().send(message);
      return asked.at(-1);
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

/** Translate with a head that its scripts chose: the server has drawn one arrival there. */
function choosing(path = "/translate?text=dogs") {
  const one = browser(path);
  one.address.arrive(["layer", "head"], 1, {});
  one.click();
  one.address.write({ layer: "3", head: "2" });
  return one;
}

test("a change by scripts of the page is an entry, and Back over it asks nothing of the server", () => {
  const one = choosing();
  assert.deepEqual(one.entries, ["/translate?text=dogs", "/translate?text=dogs&layer=3&head=2"]);
  one.address.write({ layer: "3", head: "2" });
  assert.equal(one.entries.length, 2);
  assert.equal(one.goTrusted(-1), false);
  assert.deepEqual({ ...one.address.values() }, {});
  assert.equal(one.goTrusted(1), false);
  assert.deepEqual({ ...one.address.values() }, { layer: "3", head: "2" });
  one.push("/translate?text=cats");
  assert.equal(one.goTrusted(-1), true); // another sentence is the server's
});

test("what Streamlit writes late leaves what scripts wrote since, in an entry of its own", () => {
  const one = choosing();
  one.push("/translate?text=dogs&words=False&head=1");
  assert.equal(one.here(), "/translate?text=dogs&words=False&head=2&layer=3");
  one.push("/translate?head=1&words=False&text=dogs"); // nothing new
  assert.equal(one.entries.length, 3);
  one.push("/align?text=dogs");
  assert.equal(one.here(), "/align?text=dogs");
});

test("another arrival is as the server says, unless scripts wrote since it was asked for", () => {
  const one = choosing();
  one.push("/translate?text=cats&head=1");
  one.goTrusted(-1);
  one.address.arrive(["layer", "head"], 2, { head: "0" });
  assert.deepEqual({ ...one.address.values() }, { head: "0" });
  one.address.arrive(["layer", "head"], 2, { head: "3" }); // the same one, told by another component
  assert.deepEqual({ ...one.address.values() }, { head: "0" });
  one.push("/translate?text=cats");
  one.goTrusted(-1);
  one.click();
  one.address.write({ head: "7" });
  one.address.arrive(["layer", "head"], 3, { head: "0" });
  assert.deepEqual({ ...one.address.values() }, { head: "7" });
});

test("other words for the same are no entry, and wait for an answer that is on its way", () => {
  const one = choosing();
  one.address.settle({ head: "2" });
  assert.deepEqual([one.here(), one.entries.length], ["/translate?text=dogs&head=2", 2]);
  one.push("/translate?text=cats&head=2");
  one.goTrusted(-1);
  one.address.settle({ head: "5" });
  assert.equal(one.here(), "/translate?text=dogs&head=2");
});

test("a run is asked for with what scripts wrote, however Streamlit names the address; a link with its own", () => {
  const text = (words) => [...new TextEncoder().encode(words)];
  const field = (number, bytes) => [number * 8 + 2, ...(bytes.length < 128 ? [bytes.length] : [(bytes.length % 128) + 128, bytes.length >> 7]), ...bytes];
  const message = (query, more) => Uint8Array.from([...field(14, [1]), ...field(11, [...(query ? field(1, text(query)) : []), 48, 1, ...field(2, more)])]);
  const one = choosing();
  const more = text("x".repeat(300));
  assert.deepEqual([...one.ask(message("text=dogs&head=1", more))], [...message("text=dogs&head=2&layer=3", more)]);
  const [, , , , ...added] = one.ask(message("", more));
  assert.ok(new TextDecoder().decode(Uint8Array.from(added)).endsWith("layer=3&head=2"));
  const other = Uint8Array.from([...field(7, text("stop")), 13, 1, 2, 3, 4, 9, 1, 2, 3, 4, 5, 6, 7, 8]);
  assert.deepEqual([...one.ask(other)], [...other]);
  one.click("what_if?head=1");
  const asked = message("head=1", more);
  assert.equal(one.ask(asked), asked);
  assert.equal(one.ask("text"), "text");
});

test("the menu's link leads to a page as its scripts left it, though the server was not told", () => {
  const one = choosing();
  one.click("align");
  one.push("/align");
  const side = { closest: () => true };
  const link = Object.assign(new Link("translate?text=dogs&head=1"), side);
  one.over("pointerover", link);
  assert.equal(link.href, "/translate?text=dogs&head=2&layer=3");
  link.href = `http://here${link.href}`;
  let stopped = 0;
  one.act("click", { composedPath: () => [link], preventDefault: () => stopped++, stopImmediatePropagation: () => stopped++ });
  assert.deepEqual([one.here(), stopped], ["http://here/translate?text=dogs&head=2&layer=3", 2]);
  one.replace("/translate?text=dogs&head=2&layer=3&words=True");
  assert.equal(one.here(), "/translate?text=dogs&head=2&layer=3&words=True");
  const own = Object.assign(new Link("map?head=1"), side);
  one.over("pointerover", own);
  assert.equal(own.href, "map?head=1");
});
