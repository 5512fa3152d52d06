// Posts a picture's options (what is selected, which heads are on, the threshold) to the picture of the same name.
// They travel apart from the weights, so that moving a slider sends a few bytes and not every weight again.

export default function ({ data }) {
  const posted = (window.attentionAtlasOptions ??= new Map());
  posted.set(data.instance, data);
  window.dispatchEvent(new CustomEvent("heedmap-options", { detail: data.instance }));
  return () => {
    if (posted.get(data.instance) === data) posted.delete(data.instance);
  };
}
