local function below(a, b)
  local x, y = tonumber(a), tonumber(b)
  if x ~= y then return x < y end -- rounding makes numbers equal, never swaps them
  if #a ~= #b then return #a < #b end
  x, y = tonumber(string.sub(a, 1, 10)), tonumber(string.sub(b, 1, 10))
  if x ~= y then return x < y end
  return #a > 10 and tonumber(string.sub(a, 11)) < tonumber(string.sub(b, 11))
end
