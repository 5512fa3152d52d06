"""Texts that would become something else than text, if Markdown were read in them."""

TEXTS = (
    "![i](http://h.example/x) [l](http://h.example)",
    "![i](http&colon;&sol;&sol;h.example&sol;x)",
    "[a]: http://h.example",
    "http://h.example/x",
    "HTTPS://h.example",
    "www.h.example",
    "WWW.h.example/x",
    "me@h.example",
    "mailto:me@h.example",
    "<http://h.example>",
    "<me@h.example>",
    "<img src=http://h.example/x>",
    "<script>x</script>",
    "&lt;b&gt; &amp; &#33;",
    "**a** __b__ *c* _d_ ~~e~~ ~f~",
    "snake_case_name d_model",
    "`code` ``two``",
    "$x^2$ $$y$$ costs $5 and $6",
    "\\alpha \\\\ \\* \\$",
    ":red[r] :red-background[x] :blue-badge[y] :rainbow[z] :small[s]",
    ":material/home: :streamlit: :smile: :+1: :-1:",
    "::directive",
    ":::note",
    "a:b 10:30 C:\\d",
    "# head",
    "###### head",
    "> quote",
    "- item",
    "+ item",
    "* item",
    "1. item",
    "12) item",
    "---",
    "***",
    "===",
    "| a | b |",
    "    code",
    "\tcode",
    "```py",
    "~~~",
    "a -> b <- c <-> d -- e",
    "x >= y <= z ~= w",
    "- [ ] task",
    "[^1]",
    "[link][ref]",
    "!",
    "![",
    "](",
    "a  \nb",
    "one\n\ntwo\n# three\n- four",
    "{x} {{y}}",
    "&",
    "\\",
    "*",
    "_",
    "<",
    ":",
    "@",
    "model.pt",
    "encoder.0.self_attn.in_proj_weight",
    "(1, 2)",
    "it's “so” — 好 · 50 % #1",
)
"""Variants of what Streamlit's Markdown knows; what they look like is what they are, with white space in one piece."""


def planted(host: str, what: str) -> str:
    """An image, a link and more of the same that lead to `host`; `what` tells where it was planted."""
    image = f"![i](http://{host}/image-{what}) [l](http://{host}/link-{what}) http://{host}/bare-{what}"
    return f"{image} <img src=http://{host}/tag-{what}> :material/home: www.{what}.example"


def planted_name(host: str, what: str) -> str:
    """The same as the name of a file, which cannot hold a slash: the slashes are written as entities."""
    return f"![i](http&colon;&sol;&sol;{host}&sol;name-{what}) [{what}](x)"
