/** The sign of moestream: many experts, few of them at work, and the stream that connects those. */

const LIT = new Set(["0,2", "1,1", "2,0"]);

export function Mark({ size = 28 }: { size?: number }) {
  const dots = [0, 1, 2].flatMap((row) => [0, 1, 2].map((column) => [row, column] as const));
  return (
    <svg className="mark" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect className="mark-ground" width="32" height="32" rx="8" />
      <path className="mark-stream" d="M3 25.5C9 25.5 8.5 16 16 16S23 6.5 29 6.5" />
      {dots.map(([row, column]) => (
        <circle
          key={`${row},${column}`}
          className={LIT.has(`${row},${column}`) ? "mark-lit" : "mark-dot"}
          cx={8.5 + 7.5 * column}
          cy={8.5 + 7.5 * row}
          r={LIT.has(`${row},${column}`) ? 2.6 : 1.9}
        />
      ))}
    </svg>
  );
}
