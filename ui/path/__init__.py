"""The tour through the pages, questions to predict, and what a teacher uses: presenter view, lesson link, handout."""
