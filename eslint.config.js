// How the components' scripts are written: ESLint's own recommendations, and what keeps a script short and plain.

import js from "@eslint/js";
import globals from "globals";

const LONGEST = 120; // characters of a line

/** No line is longer than LONGEST. */
const lineLength = {
  create: (context) => ({
    Program() {
      context.sourceCode.lines.forEach((line, index) => {
        if (line.length <= LONGEST) return;
        const loc = { line: index + 1, column: LONGEST };
        context.report({ loc, message: `${line.length} characters: break it at ${LONGEST}` });
      });
    },
  }),
};

/** No statement begins on the line where the one before it in the same block ends. */
const statementALine = {
  create(context) {
    const check = (statements) => statements.slice(1).forEach((node, before) => {
      if (node.loc.start.line > statements[before].loc.end.line) return;
      context.report({ node, message: "A second statement on this line: begin it on its own" });
    });
    return {
      "Program, BlockStatement, StaticBlock, ClassBody": ({ body }) => check(body),
      SwitchCase: ({ consequent }) => check(consequent),
    };
  },
};

export default [
  { ignores: ["**/built/**"] },
  js.configs.recommended,
  {
    files: ["transformer/plots/canvas/**/*.js", "ui/**/*.js", "tests/browser/**/*.js"],
    languageOptions: { globals: globals.browser },
  },
  {
    files: ["tests/ui/**/*.js", "eslint.config.js"],
    languageOptions: { globals: globals.node },
  },
  {
    linterOptions: { reportUnusedDisableDirectives: "error" },
    plugins: { local: { rules: { "line-length": lineLength, "statement-a-line": statementALine } } },
    rules: {
      "local/line-length": "error",
      "local/statement-a-line": "error",
      "eqeqeq": "error",
      "no-control-regex": "off", // texts may hold what XML may not
      "no-implicit-globals": "error",
      "no-shadow": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
    },
  },
];
