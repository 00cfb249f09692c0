package docker

import (
	"context"
	"testing"

	"github.com/testcontainers/testcontainers-go"
	tcpostgres "github.com/testcontainers/testcontainers-go/modules/postgres"
	tcredis "github.com/testcontainers/testcontainers-go/modules/redis"

	"github.com/fenced-go/fenced/internal/testenv"
)

// The images that are pulled when nothing else is said and nothing was built.
const (
	officialRedis    = "redis:7.4-alpine"
	officialPostgres = "postgres:17-alpine"
)

// provider is the [testenv.Provider] for containers.
type provider struct{}

func init() { testenv.Register(provider{}) }

// NewRedis is testenv.NewRedis, in a container or not at all: where there can be
// none the test ends as missing "docker".
func NewRedis(tb testing.TB, args ...string) *testenv.Redis {
	tb.Helper()
	return testenv.NewRedisFrom(tb, provider{}, args...)
}

// NewPostgres is testenv.NewPostgres, in a container or not at all: where there
// can be none the test ends as missing "docker".
func NewPostgres(tb testing.TB, args ...string) *testenv.Postgres {
	tb.Helper()
	return testenv.NewPostgresFrom(tb, provider{}, args...)
}

// Name implements [testenv.Provider].
func (provider) Name() string { return "docker" }

// Redis implements [testenv.Provider].
func (provider) Redis(args []string) (testenv.Server, error) {
	return recipe{
		service: "redis", official: officialRedis, inside: "6379/tcp",
		line: "Ready to accept connections", nth: 1,
		cmd: append([]string{"redis-server"}, testenv.RedisArgs(args)...),
		run: runRedis,
	}.start()
}

// Postgres implements [testenv.Provider]. The image starts the server for
// itself first, so it is ready when it says so again.
func (provider) Postgres(args []string) (testenv.Server, error) {
	return recipe{
		service: "postgres", official: officialPostgres, inside: "5432/tcp",
		line: "database system is ready to accept connections", nth: 2,
		cmd: append([]string{"postgres"}, testenv.PostgresArgs(args)...),
		run: runPostgres,
	}.start()
}

// The modules return typed pointers, nil when there is no container.

func runRedis(ctx context.Context, image string, opts ...testcontainers.ContainerCustomizer) (testcontainers.Container, error) {
	c, err := tcredis.Run(ctx, image, opts...)
	if c == nil {
		return nil, err
	}
	return c, err
}

// runPostgres asks for no password: the port is on 127.0.0.1 only.
func runPostgres(ctx context.Context, image string, opts ...testcontainers.ContainerCustomizer) (testcontainers.Container, error) {
	trust := testcontainers.WithEnv(map[string]string{"POSTGRES_HOST_AUTH_METHOD": "trust"})
	c, err := tcpostgres.Run(ctx, image, append(opts, trust)...)
	if c == nil {
		return nil, err
	}
	return c, err
}
