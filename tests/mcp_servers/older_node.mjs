// Preloaded by `node --import` into the conformance suite, which imports a function that Node.js has since 22, while
// current Debian has 20. Only a command of the suite that the tests do not use would call it.
import fs from "node:fs";
import { register } from "node:module";

const module = (text) => `data:text/javascript,${encodeURIComponent(text)}`;
const files = module(
  'export * from "node:fs"; export { default } from "node:fs"; export const globSync = undefined;',
);
const hooks = module(
  `export const resolve = async (name, context, next) =>
     name === "fs" ? { url: ${JSON.stringify(files)}, shortCircuit: true } : next(name, context);`,
);

if (!fs.globSync) register(hooks);
