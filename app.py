"""Heedmap: `streamlit run app.py`.

Streamlit reads this file twice over: once, as a module, for the server that it starts (`app`), and then as a script,
for each action of a user.
"""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

from heedmap.messages import speak
from heedmap.runs import memory
from ui import serving
from ui.frame import Frame
from ui.guard import Guard
from ui.path import strip
from ui.shared import address, state, subject
from ui.store import refs, render_slots, session_resources
from ui.store.upload_guard import UploadGuard
from ui.texts import KEY, asked_language, plain, t


def main() -> None:
    """The frame around every page: its title, the language, the navigation."""
    st.set_page_config(page_title="Heedmap", page_icon="ui/icon.png", layout="wide")
    session_resources.mine()  # so that what is left of a session goes when its user does
    with refs.one_look():
        with address.run(KEY, *strip.KEPT) as show:
            above = st.sidebar.container()
            subject.language_choice()
            speak(asked_language())
            page, draw_menu = subject.chosen_page(_pages(), above)
            show(page.url_path, subject.arriving(page.url_path))
            with render_slots.turn():
                page.run()
                strip.tools()
        with state.opened():
            draw_menu()


def _pages() -> dict[str, list[st.Page]]:
    """Every page, under the heading of its section."""
    return {
        plain("translate.section"): [
            st.Page("pages/map.py", title=t("map.title"), icon=":material/account_tree:", default=True),
            st.Page("pages/translate.py", title=t("translate.title"), icon=":material/translate:"),
            st.Page("pages/align.py", title=t("align.title"), icon=":material/compare_arrows:"),
            st.Page("pages/what_if.py", title=t("what_if.title"), icon=":material/alt_route:"),
            st.Page("pages/sequences.py", title=t("sequences.title"), icon=":material/genetics:"),
            st.Page("pages/atlas.py", title=t("atlas.title"), icon=":material/map:"),
        ],
        plain("your_model.section"): [
            st.Page("pages/your_model.py", title=t("your_model.title"), icon=":material/folder_open:"),
        ],
        plain("lessons.section"): [
            st.Page("pages/teaching.py", title=t("tour.title"), icon=":material/school:"),
            st.Page("pages/attention_steps.py", title=t("attention_steps.title"), icon=":material/calculate:"),
            st.Page("pages/inside_layer.py", title=t("inside_layer.title"), icon=":material/layers:"),
            st.Page("pages/masks.py", title=t("masks.title"), icon=":material/visibility_off:"),
            st.Page("pages/positions.py", title=t("positions.title"), icon=":material/waves:"),
            st.Page("pages/learning.py", title=t("learning.title"), icon=":material/show_chart:"),
        ],
    }


if __name__ == "__main__":
    main()
else:
    memory.share_heaps()
    around = [Middleware(one) for one in (Guard, UploadGuard, Frame)]
    app = st.App(Path(__file__).resolve(), middleware=around, lifespan=serving.life, on_script_error=serving.on_error)
