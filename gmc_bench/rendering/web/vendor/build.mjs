// Bundles what three.mjs names, with the licence at its top, for a page without a network.
import { readFileSync } from "node:fs";
import { build } from "esbuild";

const { version } = JSON.parse(readFileSync("node_modules/three/package.json", "utf8"));
const licence = readFileSync("node_modules/three/LICENSE", "utf8").trim();
await build({
  entryPoints: ["three.mjs"],
  outfile: "../static/three.js",
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "THREE",
  target: "es2022",
  legalComments: "none",
  banner: { js: `/*! three.js ${version} (https://threejs.org), parts of it.\n\n${licence}\n*/` },
});
