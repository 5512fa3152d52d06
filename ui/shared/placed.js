// From then on what is below something of unknown height does not wait for its place (styles.css).
setTimeout(() => (document.documentElement.dataset.placed = ""), 6000);
