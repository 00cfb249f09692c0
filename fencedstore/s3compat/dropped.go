package s3compat

import "slices"

// dropped is data that nothing refers to any more, since At.
type dropped struct {
	Data string `json:"data"`
	At   string `json:"at"`
}

func (e *envelope) drop(data string) {
	e.Dropped = append(e.Dropped, dropped{Data: data, At: e.At})
	e.Dropped = e.Dropped[max(0, len(e.Dropped)-maxDropped):]
}

func (e *envelope) refers(data string) bool {
	if e.Manifest != nil && e.Manifest.Data == data {
		return true
	}
	for _, en := range e.Entries {
		if en.Data == data {
			return true
		}
	}
	return false
}

// forget takes names off the list of dropped data.
func (e *envelope) forget(names map[string]bool) {
	e.Dropped = slices.DeleteFunc(e.Dropped, func(d dropped) bool { return names[d.Data] })
}

func (e *envelope) hasDropped(name string) bool {
	return slices.ContainsFunc(e.Dropped, func(d dropped) bool { return d.Data == name })
}
