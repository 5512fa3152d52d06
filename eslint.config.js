// How the components' scripts are written: ESLint's own recommendations, and what keeps a script short and plain.

import js from "@eslint/js";
import globals from "globals";

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
    rules: {
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
