"""What keeps a page from being read: text too faint for its ground, and controls that have no name."""

import re
from typing import Any

from playwright.sync_api import Page

NAMED = {
    "button", "checkbox", "combobox", "grid", "link", "listbox", "menuitem", "option", "radio", "radiogroup",
    "searchbox", "slider", "spinbutton", "switch", "tab", "textbox",
}  # fmt: skip
"""Roles of what can be operated, which a screen reader calls by its name."""

ICON = re.compile(r"[a-z]+(_[a-z0-9]+)*( icon)?")
"""What an icon's letters are: no name."""

FAINT = r"""figures => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colour = text => {  // any CSS colour as red, green, blue, alpha
    const plain = /^rgba?\(/.test(text) ? text.match(/[\d.]+/g).map(Number) : null;
    if (plain) return plain.length > 3 ? plain : [...plain, 1];
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((one, i) => one * a + under[i] * (1 - a));
  const above = node => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host ?? null;
  const chain = node => { const all = []; for (let at = node; at; at = above(at)) all.push(at); return all; };
  const paper = colour(getComputedStyle(document.querySelector(".stApp")).backgroundColor).slice(0, 3);
  const ground = (all, box) => {
    const layers = [];
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    for (const at of all) {
      const own = at.getBoundingClientRect();  // what stands beside its parent has not its ground
      if (x < own.left || x > own.right || y < own.top || y > own.bottom) continue;
      const style = getComputedStyle(at);
      const lit = /gradient\((rgba?\([^)]*\)|color\([^)]*\))/.exec(style.backgroundImage);
      if (lit) layers.push(colour(lit[1]));
      const paint = colour(style.backgroundColor);
      if (paint[3] > 0) layers.push(paint);
      if (paint[3] >= 1) break;
      const plot = at.matches?.(".js-plotly-plot *") && at.closest(".js-plotly-plot")?.querySelector(".main-svg");
      if (plot && plot.style.background) { layers.push(colour(plot.style.background)); break; }
    }
    return layers.reverse().reduce((under, one) => over(one, under), paper);
  };
  const light = rgb => {
    const linear = one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = rgb.map(one => linear(one / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const clipped = style => style.clipPath === "inset(50%)" || style.clip.startsWith("rect(");
  const found = [];
  let read = 0;
  const look = root => {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      if (node.shadowRoot) look(node.shadowRoot);
      if (node.nodeType !== Node.TEXT_NODE || !node.textContent.trim()) continue;
      const element = node.parentElement ?? root.host;
      if (!element || element.closest("style, script, title, noscript, canvas, .katex-mathml")) continue;
      if (!figures && element.closest(".js-plotly-plot")) continue;
      if (element.matches(".token")) continue;  // of code, in Streamlit's own colours
      const range = document.createRange();
      range.selectNodeContents(node);
      const box = range.getBoundingClientRect();
      const all = chain(element);
      const style = getComputedStyle(element);
      if (box.width < 2 || box.height < 2 || style.visibility !== "visible") continue;
      if (all.some(at => at.matches("[disabled], [aria-disabled=true]") || clipped(getComputedStyle(at)))) continue;
      const solid = all.reduce((left, at) => left * Number(getComputedStyle(at).opacity), 1);
      if (solid === 0) continue;
      const isSvg = element instanceof SVGElement;
      const own = colour(isSvg ? style.fill : style.color);
      const alpha = own[3] * solid * (isSvg ? Number(style.fillOpacity) : 1);
      const behind = ground(all, box);
      const [a, b] = [light(over([...own.slice(0, 3), alpha], behind)), light(behind)];
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const size = parseFloat(style.fontSize);
      const icon = all.some(at => at.dataset?.testid === "stIconMaterial");
      const large = icon || size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      read += 1;
      if (contrast < (large ? 3 : 4.5) - 0.005) {
        const named = all.find(at => at.dataset?.testid)?.dataset.testid ?? "";
        const text = node.textContent.trim().slice(0, 60);
        found.push(`${contrast.toFixed(2)} in ${named} ${element.tagName} ${element.getAttribute("class")}: ${text}`);
      }
    }
  };
  look(document.body);
  return { found, read };
}"""
"""Every text that is seen with its contrast against what lies behind it, by the formula of WCAG 2.2 (1.4.3): found are
those below 4.5, or below 3 where letters are large or pictures."""


def faint_texts(page: Page, *, figures: bool = True) -> list[str]:
    """Texts whose contrast is too low, each with its number; nothing is said of what canvases draw."""
    page.get_by_test_id("stMain").get_by_role("heading").first.wait_for()
    seen = page.evaluate(FAINT, figures)
    assert seen["read"] > 10
    found: list[str] = seen["found"]
    return found


def nameless_controls(page: Page) -> list[str]:
    """What can be operated and has no name for a screen reader, as Chromium computes it."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    nameless = [
        node for node in nodes
        if not node.get("ignored") and node.get("role", {}).get("value") in NAMED and not _is_named(node)
    ]  # fmt: skip
    found = []
    for node in nameless:
        described = session.send("DOM.describeNode", {"backendNodeId": node["backendDOMNodeId"]})["node"]
        if described["nodeName"] != "TABLE":  # Streamlit's tables cannot be named
            found.append(f"{node['role']['value']} {node['name']['value']!r}: {described.get('attributes')}")
    session.detach()
    return found


def _is_named(node: dict[str, Any]) -> bool:
    name = node.get("name", {}).get("value", "").strip()
    return bool(name) and not (name.endswith(" icon") and ICON.fullmatch(name))
