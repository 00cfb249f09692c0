package testenv_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
)

// status asks a server without credentials, 0 for no answer.
func status(t *testing.T, url string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestS3AsksForCredentialsAndComesBackAfterAKill(t *testing.T) {
	t.Parallel()
	s := testenv.NewS3(t)
	other := s.Gateway(t)
	for name, url := range map[string]string{"first": s.URL(), "second": other.URL(), "direct": s.DirectURL()} {
		if got := status(t, url+"/"+s.Bucket); got != http.StatusForbidden {
			t.Errorf("%s gateway: got %d, want 403", name, got)
		}
	}
	s.Kill(t)
	if got := status(t, s.DirectURL()); got != 0 {
		t.Errorf("after a kill: got %d, want no answer", got)
	}
	s.Start(t)
	if got := status(t, s.URL()+"/"+s.Bucket); got != http.StatusForbidden {
		t.Errorf("after a restart: got %d, want 403", got)
	}
}
