package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// result is everything that is shown.
type result struct {
	plan     plan
	when     time.Time
	machine  string
	versions string
	rows     []row
}

// note explains the one row that is not a library's own code.
const note = "¹ newer than the version compared: the row runs the same commands, SET NX PX and INCR in one script."

// markdown is the table and how it came about.
func (r result) markdown() string {
	return fmt.Sprintf("%s%s\n%s\n\n`make compare`, seed %d: %d processes, %d accounts, a TTL of %v; pauses are SIGSTOPs of %v to %v.\n"+
		"%s, on %s.\n%s.\n",
		table(r.rows), unknowns(r.rows), note, r.plan.Seed, workers, accounts, ttl, ttl+beyondLeast, ttl+beyondMost,
		r.when.Format("2006-01-02"), r.machine, r.versions)
}

// The lines of the README between which the result is written.
const (
	begins = "<!-- written by make compare -->\n"
	ends   = "<!-- until here -->\n"
)

var errMarkers = errors.New("the file has no markers for the result")

// save writes the result where it was asked for.
func (r result) save(readme, svg string) error {
	if svg != "" {
		if err := os.WriteFile(svg, []byte(chart(r.rows)), 0o644); err != nil {
			return err
		}
	}
	if readme == "" {
		return nil
	}
	b, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(b), begins)
	_, after, closed := strings.Cut(rest, ends)
	if !found || !closed {
		return fmt.Errorf("%s: %w", readme, errMarkers)
	}
	return os.WriteFile(readme, []byte(before+begins+r.markdown()+ends+after), 0o644)
}

// machine describes this one, and how busy it is already.
func machine() string {
	model := "an unknown CPU"
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer func() { _ = f.Close() }()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	busy := "?"
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		busy, _, _ = strings.Cut(string(b), " ")
	}
	return fmt.Sprintf("%d × %s, %s/%s, load %s before it began", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, busy)
}

// compared are the modules whose versions matter.
var compared = []string{
	"github.com/bsm/redislock", "github.com/go-redsync/redsync/v4", "github.com/redis/rueidis",
	"github.com/redis/go-redis/v9", "github.com/jackc/pgx/v5",
}

// versions are those of the servers, of Go and of the libraries.
func versions(ctx context.Context, s *servers) (text string, err error) {
	rdb := redis.NewClient(&redis.Options{Addr: s.redis.DirectAddr()})
	defer func() { err = errors.Join(err, rdb.Close()) }()
	info, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(info, "redis_version:")
	redisVersion, _, _ := strings.Cut(rest, "\r\n")
	conn, err := pgx.Connect(ctx, s.postgres.DirectURL("postgres"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var pg string
	if err := conn.QueryRow(ctx, "SELECT split_part(current_setting('server_version'), ' ', 1)").Scan(&pg); err != nil {
		return "", err
	}
	list := []string{"Redis " + redisVersion, "Postgres " + pg, "Go " + strings.TrimPrefix(runtime.Version(), "go")}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, path := range compared {
			list = append(list, versionOf(build, path))
		}
	}
	return strings.Join(list, ", "), nil
}

func versionOf(build *debug.BuildInfo, path string) string {
	for _, m := range build.Deps {
		if m.Path == path {
			return strings.TrimPrefix(path, "github.com/") + " " + m.Version
		}
	}
	return strings.TrimPrefix(path, "github.com/") + " (unknown)"
}
