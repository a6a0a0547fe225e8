-- Sealed values of sensitive fields.
SELECT 1;
