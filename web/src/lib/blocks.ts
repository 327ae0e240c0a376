/**
 * Markdown in pieces that can be rendered one by one. While an answer grows only its last piece
 * changes, so a long answer costs no more per token than a short one.
 */

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
/** What may go on after a blank line: list items, and whatever is indented below one. */
const LIST = /^ {0,3}([-*+]|\d{1,9}[.)])(\s|$)/;
const INDENTED = /^( {2,}|\t)/;
/** Definitions reach over the whole text, so it stays whole. */
const DEFINITION = /^ {0,3}\[[^\]]+\]:/m;

export function splitBlocks(text: string): string[] {
  if (DEFINITION.test(text)) return [text];
  const blocks: string[] = [];
  let block: string[] = [];
  let fence: string | null = null;
  let blank = false;
  let inList = false;
  const finish = (): void => {
    if (block.length > 0) blocks.push(block.join("\n"));
    block = [];
  };
  for (const line of text.split("\n")) {
    if (fence !== null) {
      block.push(line);
      if (closes(line, fence)) fence = null;
      continue;
    }
    if (line.trim() === "") {
      if (block.length > 0) {
        blank = true;
        block.push(line);
      }
      continue;
    }
    const item = LIST.test(line);
    const goesOn = inList && (item || INDENTED.test(line));
    if (blank && !goesOn) {
      finish();
      inList = false;
    }
    blank = false;
    if (item) inList = true;
    const opening = FENCE.exec(line);
    if (opening !== null && !(opening[1]?.startsWith("`") && opening[2]?.includes("`"))) {
      fence = opening[1] ?? null;
    }
    block.push(line);
  }
  finish();
  return blocks;
}

function closes(line: string, fence: string): boolean {
  const found = /^ {0,3}(`{3,}|~{3,})\s*$/.exec(line);
  return found?.[1] !== undefined && found[1][0] === fence[0] && found[1].length >= fence.length;
}
