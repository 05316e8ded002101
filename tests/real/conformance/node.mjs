// `fs.globSync` requires Node.js 22. The suite imports it at startup, but does not use it to test servers.
import * as fs from "node:fs";
import { register } from "node:module";

const shim = 'export * from "node:fs"; export { default } from "node:fs"; export const globSync = undefined;';
const hook = `export const resolve = (specifier, context, next) =>
  specifier === "fs" && context.parentURL?.includes("/conformance/")
    ? { url: "data:text/javascript,${encodeURIComponent(shim)}", shortCircuit: true }
    : next(specifier, context);`;
if (!("globSync" in fs)) register(`data:text/javascript,${encodeURIComponent(hook)}`);
