package storetest_test

import (
	"errors"
	"strings"

	"github.com/fenced-go/fenced/fencedstore"
)

func claimMutants() []mutant {
	return []mutant{
		claimed("accepts a lower claim", func(st *state, f fence) error {
			if err := st.raise(f); !errors.Is(err, fencedstore.ErrStale) {
				return err
			}
			return nil
		}, "claim-lower-is-stale"),
		claimed("accepts an equal claim from another holder", func(st *state, f fence) error {
			if f.ID == st.marks[f.Resource].ID {
				st.marks[f.Resource] = f
			}
			return st.raise(f)
		}, "claim-equal-of-another-holder-is-reused"),
		claimed("<= for <: refuses a repeated claim", func(st *state, f fence) error {
			if newest := st.marks[f.Resource].ID; f.ID <= newest {
				return &fencedstore.StaleError{Fence: f, Newest: newest}
			}
			return st.raise(f)
		}, "claim-repeats"),
		claimed("wants dense IDs", func(st *state, f fence) error {
			if newest := st.marks[f.Resource].ID; newest > 0 && f.ID > newest+1 {
				return errors.New("gap in fence IDs")
			}
			return st.raise(f)
		}, "claim-skips-ids"),
		claimed("a refused claim becomes the mark", func(st *state, f fence) error {
			err := st.raise(f)
			st.marks[f.Resource] = f
			return err
		}, "claim-refused-changes-nothing"),
		claimed("a refused claim clears the holder", func(st *state, f fence) error {
			err := st.raise(f)
			if err != nil {
				newest := st.marks[f.Resource]
				newest.Holder = ""
				st.marks[f.Resource] = newest
			}
			return err
		}, "claim-refused-changes-nothing"),
	}
}

func markMutants() []mutant {
	var order []string
	return []mutant{
		claimed("keeps the latest 50 marks", func(st *state, f fence) error {
			if _, known := st.marks[f.Resource]; !known {
				order = append(order, f.Resource)
			}
			if len(order) > 50 {
				delete(st.marks, order[0])
				order = order[1:]
			}
			return st.raise(f)
		}, "mark-never-falls"),
		written("forgets the mark on delete", func(st *state, f fence, key string, value []byte) error {
			if err := st.guard(f); err != nil {
				return err
			}
			st.set(key, value)
			if value == nil {
				delete(st.marks, f.Resource)
			}
			return nil
		}, "mark-outlives-data"),
		perKey(),
		confused("one mark for all resources", func(f fence) fence {
			f.Resource = f.Resource[:min(1, len(f.Resource))]
			return f
		}, "resource-names-are-exact"),
		confused("one mark for all valid resources", func(f fence) fence {
			if f.Validate() == nil {
				f.Resource = "all"
			}
			return f
		}, "resources-are-independent"),
	}
}

// perKey keeps, with each key, the newest fence that wrote it.
func perKey() mutant {
	return mutant{name: "a mark for each key", fails: []string{"mark-per-resource", "write-lower-is-stale"}, wrong: func(s *toy) {
		newest := map[string]fence{}
		s.write = s.writes(func(f fence, key string, value []byte) error {
			if err := s.guard(f); errors.Is(err, fencedstore.ErrNotClaimed) {
				return err
			}
			if err := older(f, newest[key]); err != nil {
				return err
			}
			newest[key] = f
			s.set(key, value)
			return nil
		})
	}}
}

func nameMutants() []mutant {
	name := func(how string, change func(name string) string) mutant {
		return confused("resource names: "+how, func(f fence) fence {
			f.Resource = change(f.Resource)
			return f
		}, "resource-names-are-exact")
	}
	holder := func(how string, change func(holder string) string) mutant {
		return confused("holders: "+how, func(f fence) fence {
			f.Holder = change(f.Holder)
			return f
		}, "holders-are-exact")
	}
	toNUL := func(s string) string { before, _, _ := strings.Cut(s, "\x00"); return before + s[:min(1, len(s))] }
	return []mutant{
		name("fold case", strings.ToLower),
		name("trim space", strings.TrimSpace),
		name("end at NUL", toNUL),
		name("replace invalid UTF-8", func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }),
		name("clean paths", func(s string) string { return strings.ReplaceAll(s, "//", "/") }),
		name("drop backslashes", func(s string) string { return strings.ReplaceAll(s, `\\`, `\`) }),
		name("use the part in braces", func(s string) string { return strings.NewReplacer("{", "", "}", "").Replace(s) + s[:min(1, len(s))] }),
		name("unescape", func(s string) string { return strings.ReplaceAll(s, "%41", "A") }),
		name("keep 511 bytes", func(s string) string { return s[:min(511, len(s))] + strings.Repeat("x", max(0, len(s)-512)) }),
		holder("fold case", strings.ToLower),
		holder("keep 127 bytes", func(s string) string { return s[:min(127, len(s))] + strings.Repeat("x", max(0, len(s)-128)) }),
		holder("end at NUL", toNUL),
		confused("IDs through a float64", func(f fence) fence {
			if id := int64(float64(f.ID)); id > 0 {
				f.ID = id
			}
			return f
		}, "large-ids-are-exact"),
		confused("IDs of 32 bits", func(f fence) fence { f.ID = int64(int32(f.ID)); return f }, "large-ids-are-exact"),
		confused("IDs below 2^62", func(f fence) fence { f.ID %= 1 << 62; return f }, "large-ids-are-exact"),
	}
}
