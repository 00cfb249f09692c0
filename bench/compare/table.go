package main

import (
	"fmt"
	"strings"
)

const head = "| lock | acknowledged writes | pauses (after the check) | noticed | refused by the store | stale writes accepted | duplicate invoices | **lost updates** |\n" +
	"|---|--:|--:|--:|--:|--:|--:|--:|\n"

// table is the rows in Markdown.
func table(rows []row) string {
	var b strings.Builder
	_, _ = b.WriteString(head)
	for _, r := range rows {
		_, _ = fmt.Fprintf(&b, "| %s: %s | %d | %d (%d) | %d | %d | %d | %d | **%d** |\n",
			r.Lock, r.How, r.Acknowledged, r.Pauses, r.Late, r.Noticed, r.Refused, r.Stale, r.Duplicates, r.Lost)
	}
	return b.String()
}

// unknowns says how many writes ended without an answer, if any did.
func unknowns(rows []row) string {
	var b strings.Builder
	for _, r := range rows {
		if r.Unknown > 0 {
			_, _ = fmt.Fprintf(&b, "%s: %d writes of unknown outcome.\n", r.Lock, r.Unknown)
		}
	}
	return b.String()
}
