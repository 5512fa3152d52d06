// A slider over moments with a play button; it moves in the browser and tells where it came to rest.

import { button, element, say } from "../../../transformer/plots/canvas/shared/page.js";

const PAUSE = 900; // milliseconds that each moment is shown

/** @typedef {ReturnType<typeof makePlayer>} Player */

/**
 * What a player moves: how many moments there are, which one is shown, show another, and tell where it came to rest.
 * @typedef {object} Played
 * @property {() => number} count
 * @property {() => number} at
 * @property {(moment: number) => void} show
 * @property {(moment: number) => void} settled
 */

/** @param {Played} act */
export function makePlayer(act) {
  const root = element("div", "player");
  const slider = element("input", "", null, { type: "range", min: "0", step: "1" });
  const name = element("output", "moment");
  let timer = 0;
  let words = { play: "", pause: "" };
  const tell = () => say(toggle, timer ? words.pause : words.play);
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    tell();
  };
  const next = () => {
    if (act.at() + 1 >= act.count()) {
      stop();
      act.settled(act.at());
    } else act.show(act.at() + 1);
  };
  const toggle = button("", () => {
    if (timer) {
      stop();
      act.settled(act.at());
      return;
    }
    if (act.at() + 1 >= act.count()) act.show(0);
    timer = setInterval(next, PAUSE);
    tell();
  });
  slider.oninput = () => {
    if (timer) stop();
    act.show(Number(slider.value));
  };
  slider.onchange = () => act.settled(Number(slider.value));
  root.append(toggle, slider, name);

  /**
   * @param {{ name: string }[]} moments
   * @param {number} moment the one that is shown
   * @param {{ play: string, pause: string, moments: string }} said
   */
  const update = (moments, moment, said) => {
    words = said;
    slider.max = String(moments.length - 1);
    slider.value = String(moment);
    slider.setAttribute("aria-label", said.moments);
    slider.setAttribute("aria-valuetext", moments[moment].name);
    say(name, moments[moment].name);
    tell();
  };
  return { root, stop, update };
}
