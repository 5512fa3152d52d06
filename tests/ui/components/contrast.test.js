// What canvases write can be read: every number on its cell's colour, every label on the page, by WCAG 2.2 (1.4.3).

import assert from "node:assert/strict";
import { test } from "node:test";

import { PALE } from "../../../ui/components/alignments/scene.js";
import { colouring, FADED } from "../../../ui/components/matrices/scene.js";
import { diverging, headColour } from "../../../transformer/plots/canvas/shared/colours.js";

const hex = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
const doubled = (text) => (text.length === 4 ? text.replace(/[0-9a-f]/g, "$&$&") : text);
const colour = (text) => (text.startsWith("rgb") ? text.match(/\d+/g).map(Number) : hex(doubled(text)));
const over = (front, share, behind) => front.map((one, i) => one * share + behind[i] * (1 - share));
const THEMES = {
  light: { dark: false, text: "#1b2530", background: "#fdfcf9", masked: [221, 222, 221] },
  dark: { dark: true, text: "#e8ecef", background: "#10171e", masked: [46, 53, 59] },
};

/** How far two colours are apart: (lighter + 0.05) / (darker + 0.05), of their relative luminance. */
function contrast(one, other) {
  const curve = (share) => (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4);
  const linear = (channel) => curve(channel / 255);
  const light = (rgb) => [0.2126, 0.7152, 0.0722].reduce((sum, share, i) => sum + share * linear(rgb[i]), 0);
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

for (const [name, theme] of Object.entries(THEMES)) {
  const [paper, ink] = [hex(theme.background), hex(theme.text)];

  test(`every number of a matrix can be read on its colour, also where it fades: ${name}`, () => {
    for (const weights of [true, false]) {
      const values = Float32Array.from({ length: 401 }, (_, i) => (weights ? i / 400 : i / 200 - 1));
      const looks = colouring({ weights }, values, theme);
      for (const value of [...values, NaN, 1e9]) {
        const [fill, number] = looks(value).map(colour);
        assert.ok(contrast(fill, number) >= 4.5, `${value}: ${contrast(fill, number)}`);
        const faded = over(fill, FADED.fill, paper);
        assert.ok(contrast(faded, over(ink, FADED.ink, faded)) >= 4.5, `${value} faded`);
      }
    }
    assert.notDeepEqual(diverging(theme)[0], diverging(theme)[2]);
  });

  test(`words beside the one in focus can be read, and lines of heads be told from the page: ${name}`, () => {
    assert.ok(contrast(over(ink, PALE, paper), paper) >= 4.5);
    for (let head = 0; head < 16; head++) {
      assert.ok(contrast(hex(headColour(head, theme, 16)), paper) >= 2.9, String(head));
    }
  });
}
