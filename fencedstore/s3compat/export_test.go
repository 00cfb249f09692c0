package s3compat

import "time"

// SetNow sets the clock of a Store.
func SetNow(s *Store, now func() time.Time) { s.now = now }
