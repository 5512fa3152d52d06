// Writing the translation word by word, as the decoder did.

const PAUSE = 750; // milliseconds a word

/**
 * @typedef {object} Played
 * @property {() => number} count how many words there are
 * @property {(written: number) => void} show show so many words, the last of which is being written
 * @property {() => void} ended all is written, or the user wants no more
 */

/** @param {Played} act */
export function makePlayer(act) {
  let [timer, written] = [0, 0];
  const playing = () => timer !== 0;
  const stop = () => {
    if (!timer) return;
    clearInterval(timer);
    timer = 0;
    act.ended();
  };
  const next = () => {
    if (written >= act.count()) stop();
    else act.show(++written);
  };
  const toggle = () => {
    if (timer) return stop();
    written = 0;
    timer = setInterval(next, PAUSE);
    next();
  };
  return { toggle, stop, playing };
}
