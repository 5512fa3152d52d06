// A slider over moments with a play button; it moves in the browser and tells where it came to rest.

import { button, element } from "./page.js";

const PAUSE = 900; // milliseconds that each moment is shown

/** `act` has count(), at(), show(moment) and settled(moment). */
export function makePlayer(act) {
  const root = element("div", "player");
  const slider = element("input", "", null, { type: "range", min: "0", step: "1" });
  const name = element("output", "moment");
  const player = { root, slider, name, timer: 0 };
  player.stop = () => {
    clearInterval(player.timer);
    player.timer = 0;
    player.tell();
  };
  player.tell = () => {};
  const next = () => {
    if (act.at() + 1 >= act.count()) {
      player.stop();
      act.settled(act.at());
    } else act.show(act.at() + 1);
  };
  player.button = button("", () => {
    if (player.timer) {
      player.stop();
      act.settled(act.at());
      return;
    }
    if (act.at() + 1 >= act.count()) act.show(0);
    player.timer = setInterval(next, PAUSE);
    player.tell();
  });
  slider.oninput = () => {
    if (player.timer) player.stop();
    act.show(Number(slider.value));
  };
  slider.onchange = () => act.settled(Number(slider.value));
  root.append(player.button, slider, name);
  return player;
}

export function updatePlayer(player, header, moment) {
  const { moments, words } = header;
  player.slider.max = String(moments.length - 1);
  player.slider.value = String(moment);
  player.slider.setAttribute("aria-label", words.moments);
  player.slider.setAttribute("aria-valuetext", moments[moment].name);
  player.name.textContent = moments[moment].name;
  player.tell = () => (player.button.textContent = player.timer ? words.pause : words.play);
  player.tell();
}
